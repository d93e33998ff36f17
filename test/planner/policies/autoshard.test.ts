// AutoShard as a whole, on tasks of six tables and two devices: its training repeats bit for bit,
// its plans are more even than chance, and no device gets more than it has room for.

import test from "ava";
import { openKernels } from "../../../src/kernels/index.ts";
import {
  balanceOf,
  trainAutoShard,
} from "../../../src/planner/policies/autoshard/train-autoshard.ts";
import { placeByPolicy } from "../../../src/planner/policies/placement-policy.ts";
import { nativeKernels, testIf } from "../../helpers/needs.ts";
import { plainCosts, sizedTables, smallSubject } from "../../helpers/policies.ts";

const short = { updates: 2, episodes: 2, costUpdates: 3 };

test("a training repeats bit for bit, and another seed gives another policy", (t) => {
  const train = (seed: number) => {
    return trainAutoShard(openKernels("auto"), smallSubject(1), { ...short, seed });
  };
  t.deepEqual(train(1), train(1));
  t.notDeepEqual(train(1).weights, train(2).weights);
});

testIf(nativeKernels)(
  "a training has the same bits on the native kernels as on the reference",
  (t) => {
    const train = (kind: "native" | "reference") => {
      return trainAutoShard(openKernels(kind), smallSubject(2), short);
    };
    t.deepEqual(train("native"), train("reference"));
  },
);

test("a training makes plans more even, and those of unseen tables too", (t) => {
  const kernels = openKernels("auto");
  const balances: number[] = [];
  const policy = trainAutoShard(kernels, smallSubject(3), {
    ...{ updates: 60, costUpdates: 10 },
    onUpdate: ({ balance }) => balances.push(balance),
  });
  const mean = (own: readonly number[]) => own.reduce((sum, one) => sum + one, 0) / own.length;
  const [first, last] = [mean(balances.slice(0, 5)), mean(balances.slice(-5))];
  t.true(last > first + 0.15, `from ${first} to ${last}`);
  const [own, all] = [[] as number[], [] as number[]];
  for (let seed = 10; seed < 20; seed++) {
    const tables = sizedTables(6, seed);
    const measure = plainCosts(tables);
    const room = { devices: 2, bytes: Number.MAX_SAFE_INTEGER };
    const placed = placeByPolicy(kernels, policy, tables, room);
    if (placed === undefined) return t.fail();
    t.deepEqual(placed.flat().sort(), [0, 1, 2, 3, 4, 5]);
    own.push(balanceOf(measure(placed)));
    // All 64 placements: what chance is worth.
    for (let code = 0; code < 64; code++) {
      const on = (device: number) => [...tables.keys()].filter((i) => ((code >> i) & 1) === device);
      all.push(balanceOf(measure([on(0), on(1)])));
    }
  }
  t.true(mean(own) > mean(all) + 0.15, `${mean(own)}, by chance ${mean(all)}`);
});

test("no device gets more than it has room for; where a table has none, there is no plan", (t) => {
  const kernels = openKernels("auto");
  const bytes = 3.2e6;
  const policy = trainAutoShard(kernels, smallSubject(1, bytes), short);
  const alike = (count: number) => {
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

test("balance is that of the fastest beside the slowest device; 0 without any cost", (t) => {
  const of = (compute: number) => ({ compute, backward: 5, forward: 5 });
  t.is(balanceOf([of(2), of(4), of(3)]), 0.5);
  t.is(balanceOf([of(0), of(0)]), 0);
});

test("tasks of several numbers of tables are refused", (t) => {
  const { tables, tasks, measure } = smallSubject(1);
  const mixed = tasks.map((task, i) => ({ ...task, tables: task.tables.slice(i % 2) }));
  t.throws(
    () => trainAutoShard(openKernels("auto"), { tables, tasks: mixed, measure }, { seed: 1 }),
    {
      message: /tasks of one number of tables/,
    },
  );
});
