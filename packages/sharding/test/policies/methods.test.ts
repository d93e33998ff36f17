// DreamShard and AutoShard end to end, on tasks of six tables and two devices: a training repeats
// bit for bit, plans are better than random ones by each method's measure, and every device has
// room for its tables.

import test from "ava";
import type { Kernels } from "../../../../src/kernels/contract/kernels.ts";
import { openKernels } from "../../../../src/kernels/index.ts";
import { nativeKernels, testIf } from "../../../../test/helpers/needs.ts";
import {
  allPlacements,
  plainCosts,
  sizedTables,
  smallSubject,
} from "../../../../test/helpers/policies.ts";
import { balanceOf, trainAutoShard } from "../../policies/autoshard/train-autoshard.ts";
import { trainDreamShard } from "../../policies/dreamshard/train-dreamshard.ts";
import { type PlacementPolicy, placeByPolicy } from "../../policies/placement-policy.ts";
import type { PolicySubject, SizedTable } from "../../policies/table-pool.ts";
import { slowestOf } from "../../search/cost-networks.ts";

type Training = (kernels: Kernels, subject: PolicySubject, seed?: number) => PlacementPolicy;

/** Short trainings with both methods. */
const methods: Readonly<Record<string, Training>> = {
  DreamShard: (kernels, subject, seed = 1) => {
    const short = { turns: 2, plans: 4, costUpdates: 10, policyUpdates: 3, episodes: 3 };
    return trainDreamShard(kernels, subject, { ...short, seed });
  },
  AutoShard: (kernels, subject, seed = 1) => {
    return trainAutoShard(kernels, subject, { updates: 2, episodes: 2, costUpdates: 3, seed });
  },
};

for (const [name, train] of Object.entries(methods)) {
  test(`${name}: a training repeats bit for bit, and another seed gives another policy`, (t) => {
    const trained = (seed: number) => train(openKernels("auto"), smallSubject(1), seed);
    const once = trained(1);
    t.deepEqual(trained(1), once);
    t.notDeepEqual(trained(2).weights, once.weights);
  });

  testIf(nativeKernels)(
    `${name}: training has the same bits on native and reference kernels`,
    (t) => {
      const trained = (kind: "native" | "reference") => train(openKernels(kind), smallSubject(2));
      t.deepEqual(trained("native"), trained("reference"));
    },
  );

  test(`${name}: no device exceeds its memory; without room there is no plan`, (t) => {
    const kernels = openKernels("auto");
    const bytes = 3.2e6;
    const policy = train(kernels, smallSubject(1, bytes));
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
}

test("DreamShard: a turn without a plan that fits reports no measured cost", (t) => {
  const { tables, tasks, measure } = smallSubject(1);
  let plans = 0;
  const measured: (number | undefined)[] = [];
  trainDreamShard(
    openKernels("auto"),
    {
      tables,
      // The first plans are of tasks with room; afterwards no plan fits.
      tasks: tasks.map((task) => ({
        ...task,
        room: {
          devices: 2,
          get bytes() {
            return plans < 4 ? Number.MAX_SAFE_INTEGER : 0;
          },
        },
      })),
      measure: (placed) => {
        plans++;
        return measure(placed);
      },
    },
    {
      ...{ turns: 2, plans: 4, costUpdates: 1, policyUpdates: 1, episodes: 2 },
      onTurn: (turn) => measured.push(turn.measured),
    },
  );
  t.is(measured.length, 2);
  t.true((measured[0] ?? 0) > 0);
  t.is(measured[1], undefined);
});

/** The placements by a policy of ten unseen sets of six tables. */
function plansOf(kernels: Kernels, policy: PlacementPolicy) {
  return Array.from({ length: 10 }, (_, i) => {
    const tables = sizedTables(6, 10 + i);
    const room = { devices: 2, bytes: Number.MAX_SAFE_INTEGER };
    return { tables, placed: placeByPolicy(kernels, policy, tables, room) ?? [] };
  });
}

test("DreamShard: plans of unseen tables are near the best of all placements", (t) => {
  const kernels = openKernels("auto");
  const policy = trainDreamShard(kernels, smallSubject(3), {
    ...{ turns: 6, plans: 10, costUpdates: 100, policyUpdates: 20 },
  });
  const above = plansOf(kernels, policy).map(({ tables, placed }) => {
    t.deepEqual(placed.flat().sort(), [0, 1, 2, 3, 4, 5]);
    const { least, mean } = allPlacements(tables);
    // 0: the best of all placements; 1: as good as random.
    return (slowestOf(plainCosts(tables)(placed)) - least) / (mean - least);
  });
  t.true(meanOf(above) < 0.5, `${meanOf(above)} of the way from the best to chance`);
});

test("AutoShard: training balances plans better, those of unseen tables included", (t) => {
  const kernels = openKernels("auto");
  const balances: number[] = [];
  const policy = trainAutoShard(kernels, smallSubject(3), {
    ...{ updates: 60, costUpdates: 10 },
    onUpdate: ({ balance }) => balances.push(balance),
  });
  const [first, last] = [meanOf(balances.slice(0, 5)), meanOf(balances.slice(-5))];
  t.true(last > first + 0.15, `from ${first} to ${last}`);
  const [own, all] = [[] as number[], [] as number[]];
  for (const { tables, placed } of plansOf(kernels, policy)) {
    const measure = plainCosts(tables);
    t.deepEqual(placed.flat().sort(), [0, 1, 2, 3, 4, 5]);
    own.push(balanceOf(measure(placed)));
    // All 64 placements: the average of random ones.
    for (let code = 0; code < 64; code++) {
      const on = (device: number) => [...tables.keys()].filter((i) => ((code >> i) & 1) === device);
      all.push(balanceOf(measure([on(0), on(1)])));
    }
  }
  t.true(meanOf(own) > meanOf(all) + 0.15, `${meanOf(own)}, by chance ${meanOf(all)}`);
});

test("balance is the fastest device's cost over the slowest's; 0 without any cost", (t) => {
  const of = (compute: number) => ({ compute, backward: 5, forward: 5 });
  t.is(balanceOf([of(2), of(4), of(3)]), 0.5);
  t.is(balanceOf([of(0), of(0)]), 0);
});

test("AutoShard refuses tasks with different numbers of tables", (t) => {
  const { tables, tasks, measure } = smallSubject(1);
  const mixed = tasks.map((task, i) => ({ ...task, tables: task.tables.slice(i % 2) }));
  t.throws(
    () => trainAutoShard(openKernels("auto"), { tables, tasks: mixed, measure }, { seed: 1 }),
    { message: /tasks of one number of tables/ },
  );
});

test("DreamShard refuses tasks with different numbers of devices", (t) => {
  const { tables, tasks, measure } = smallSubject(1);
  const [first] = tasks;
  if (first === undefined) return t.fail();
  const other = { ...first, room: { devices: 3, bytes: 1 } };
  t.throws(() => trainDreamShard(openKernels("auto"), { tables, tasks: [first, other], measure }), {
    message: /tasks of one number of devices/,
  });
});

function meanOf(values: readonly number[]): number {
  return values.reduce((sum, one) => sum + one, 0) / values.length;
}
