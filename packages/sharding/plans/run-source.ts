// The search by learned costs for runs: the module that a thread loads where a job has
// `planner.costs` (actors/threads/data/cost-files.ts).

import { type CostSearchModule, deviceCount } from "../../../internal.ts";
import { readCostNetworks } from "../files/cost-networks-file.ts";
import { learnedPlans } from "./learned-plan.ts";

/** See `CostSearchModule`. */
export const openCostSearch: CostSearchModule["openCostSearch"] = (
  paths,
  { devices, batchSize },
) => {
  const files = paths.map((path) => ({ path, costs: readCostNetworks(path).networks }));
  const found = files.find(({ costs }) => {
    const isOfDevices = costs.devices === deviceCount(devices);
    return isOfDevices && (costs.hosts ?? 1) === devices.hosts && costs.batchSize === batchSize;
  });
  return found && { path: found.path, source: learnedPlans({ costs: found.costs }) };
};
