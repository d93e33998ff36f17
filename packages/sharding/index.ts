// The public interface of packages/sharding: other code may import from this file only. Runs of a
// process that imports it may search plans by learned costs.

import { offerLearnedSearch } from "./commands/learned-search.ts";

export { readCostNetworks, writeCostNetworks } from "./files/cost-networks-file.ts";
export { readPolicy, writePolicy } from "./files/policy-file.ts";
export { learnedPlans } from "./plans/learned-plan.ts";
export {
  type PlacementPolicy,
  type PolicyMethod,
  policyMethods,
} from "./policies/placement-policy.ts";
export type { LearnedSearch } from "./search/beam-search.ts";
export type { CostNetworks } from "./search/cost-networks.ts";
export { measureCosts } from "./training/measure-costs.ts";
export { measureVerdict } from "./training/measure-verdict.ts";
export { trainCostNetworks } from "./training/train-cost-networks.ts";
export { trainPolicy } from "./training/train-policy.ts";

offerLearnedSearch();
