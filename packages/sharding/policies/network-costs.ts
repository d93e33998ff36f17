// Costs of plans by cost networks, as measurements for the training of a policy: they stand in for
// hardware. The training sees only the costs of its own plans.

import type { CostTable } from "../../../internal.ts";
import {
  type CostNetworks,
  computeCost,
  type DeviceCosts,
  deviceCosts,
  tableVector,
} from "../search/cost-networks.ts";
import type { TablesOfDevices } from "../search/greedy.ts";

/** Returns a function from a plan, with tables by index, to the costs of its devices. */
export function networkCosts(
  networks: CostNetworks,
  tables: readonly CostTable[],
): (placed: TablesOfDevices) => DeviceCosts[] {
  const vectors = tables.map((table) => tableVector(networks, table));
  const width = networks.table.layers.at(-1)?.bias.length ?? 0;
  return (placed) => {
    const loads = placed.map((own) => {
      const sum = new Float64Array(width);
      let columns = 0;
      for (const index of own) {
        columns += tables[index]?.dim ?? 0;
        for (const [i, value] of (vectors[index] ?? []).entries()) sum[i] = (sum[i] ?? 0) + value;
      }
      return { compute: own.length === 0 ? 0 : computeCost(networks, sum), columns };
    });
    return deviceCosts(networks, loads);
  };
}
