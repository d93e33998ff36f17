// Placement policies for a machine, trained on its measured tables by each method.

import test from "ava";
import { openKernels } from "../../../../src/kernels/index.ts";
import { drawnNetworks, drawnTables } from "../../../../test/helpers/cost-networks.ts";
import { sizedTables } from "../../../../test/helpers/policies.ts";
import { someOrAll } from "../../../../test/helpers/thinned.ts";
import { placeByPolicy, policyMethods } from "../../policies/placement-policy.ts";
import { trainPolicy } from "../../training/train-policy.ts";

const tables = drawnTables(30, 1);
const costs = {
  devices: 2,
  batchSize: 64,
  compute: Array.from({ length: 20 }, (_, i) => ({
    tables: tables.slice(i, i + 4),
    milliseconds: 1,
  })),
  exchange: [],
};

for (const method of someOrAll("methods of policies", policyMethods.slice(0, 1), policyMethods)) {
  test(`${method} learns from measured tables, and places other tables on another device count`, (t) => {
    const networks = drawnNetworks(2, 1);
    const policy = trainPolicy(costs, networks, { method, turns: 1 });
    t.is(policy.method, method);
    t.deepEqual(trainPolicy(costs, networks, { method, turns: 1 }), policy);
    const room = { devices: 3, bytes: Number.MAX_SAFE_INTEGER };
    const placed = placeByPolicy(openKernels("auto"), policy, sizedTables(7, 2), room);
    t.is(placed?.length, 3);
    t.deepEqual(placed?.flat().sort(), [0, 1, 2, 3, 4, 5, 6]);
  });
}
