// DreamShard as a whole, on tasks of six tables and two devices: its training repeats bit for bit,
// its plans come near the best of all placements, and no device gets more than it has room for.

import test from "ava";
import { openKernels } from "../../../src/kernels/index.ts";
import { slowestOf } from "../../../src/planner/learned/cost-networks.ts";
import { trainDreamShard } from "../../../src/planner/policies/dreamshard/train-dreamshard.ts";
import { placeByPolicy } from "../../../src/planner/policies/placement-policy.ts";
import type { SizedTable } from "../../../src/planner/policies/table-pool.ts";
import { nativeKernels, testIf } from "../../helpers/needs.ts";
import { allPlacements, plainCosts, sizedTables, smallSubject } from "../../helpers/policies.ts";

const short = { turns: 2, plans: 4, costUpdates: 10, policyUpdates: 3, episodes: 3 };

test("a training repeats bit for bit, and another seed gives another policy", (t) => {
  const train = (seed: number) => {
    return trainDreamShard(openKernels("auto"), smallSubject(1), { ...short, seed });
  };
  t.deepEqual(train(1), train(1));
  t.notDeepEqual(train(1).weights, train(2).weights);
});

testIf(nativeKernels)(
  "a training has the same bits on the native kernels as on the reference",
  (t) => {
    const train = (kind: "native" | "reference") => {
      return trainDreamShard(openKernels(kind), smallSubject(2), short);
    };
    t.deepEqual(train("native"), train("reference"));
  },
);

test("plans of unseen tables are near the best of all placements", (t) => {
  const kernels = openKernels("auto");
  const policy = trainDreamShard(kernels, smallSubject(3), {
    ...{ turns: 6, plans: 10, costUpdates: 100, policyUpdates: 20 },
  });
  const above: number[] = [];
  for (let seed = 10; seed < 20; seed++) {
    const tables = sizedTables(6, seed);
    const room = { devices: 2, bytes: Number.MAX_SAFE_INTEGER };
    const placed = placeByPolicy(kernels, policy, tables, room);
    if (placed === undefined) return t.fail();
    t.deepEqual(placed.flat().sort(), [0, 1, 2, 3, 4, 5]);
    const { least, mean } = allPlacements(tables);
    // 0: the best of all placements; 1: as good as chance.
    above.push((slowestOf(plainCosts(tables)(placed)) - least) / (mean - least));
  }
  const mean = above.reduce((sum, own) => sum + own, 0) / above.length;
  t.true(mean < 0.5, `${mean} of the way from the best to chance`);
});

test("no device gets more than it has room for; where a table has none, there is no plan", (t) => {
  const kernels = openKernels("auto");
  const bytes = 3.2e6;
  const policy = trainDreamShard(kernels, smallSubject(1, bytes), short);
  const alike = (count: number): SizedTable[] => {
    return sizedTables(1, 1).flatMap((table) => {
      return Array.from({ length: count }, () => ({ ...table, bytes: 1e6 }));
    });
  };
  const placed = placeByPolicy(kernels, policy, alike(6), { devices: 2, bytes });
  t.deepEqual(
    placed?.map((own) => own.length),
    [3, 3],
  );
  t.is(placeByPolicy(kernels, policy, alike(7), { devices: 2, bytes }), undefined);
});

test("tasks of several numbers of devices are refused", (t) => {
  const { tables, tasks, measure } = smallSubject(1);
  const [first] = tasks;
  if (first === undefined) return t.fail();
  const other = { ...first, room: { devices: 3, bytes: 1 } };
  t.throws(() => trainDreamShard(openKernels("auto"), { tables, tasks: [first, other], measure }), {
    message: /tasks of one number of devices/,
  });
});
