// The public interface of packages/sharding: other code may import from this file only. Runs of a
// process that imports it may search plans by learned costs.

import { offerLearnedSearch } from "./commands/learned-search.ts";

export {
  type ReadCostNetworks,
  readCostNetworks,
  writeCostNetworks,
} from "./files/cost-networks-file.ts";
export { type ReadPolicy, readPolicy, writePolicy } from "./files/policy-file.ts";
export { learnedPlans } from "./plans/learned-plan.ts";
export {
  type PlacementPolicy,
  type PolicyMethod,
  policyMethods,
} from "./policies/placement-policy.ts";
export type { LearnedPlan, LearnedSearch } from "./search/beam-search.ts";
export type { CostNetworks } from "./search/cost-networks.ts";
export { type Measured, type MeasureOptions, measureCosts } from "./training/measure-costs.ts";
export { measureVerdict, type VerdictOptions } from "./training/measure-verdict.ts";
export {
  type CostTrainingOptions,
  type TrainedNetworks,
  trainCostNetworks,
} from "./training/train-cost-networks.ts";
export { type PolicyTrainingOptions, trainPolicy } from "./training/train-policy.ts";

offerLearnedSearch();
