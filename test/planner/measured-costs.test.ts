// Cost factors of tables, from a run's measurements of its plans.

import test from "ava";
import { assessPlan } from "../../src/planner/assess.ts";
import {
  costFactors,
  type MeasuredPlan,
  solveSymmetric,
} from "../../src/planner/cost/measured-costs.ts";
import { searchPlan } from "../../src/planner/search.ts";
import type { Plan, PlannedTable } from "../../src/planner/shards.ts";
import { purposes, RandomStream } from "../../src/ports/random.ts";
import { near, plannedTable, settingOf } from "../helpers/stores/plans.ts";

const devices = { hosts: 1, perHost: 4 };
const names = Array.from({ length: 12 }, (_, i) => `t${i}`);

/** Whole tables of different work. `factors`: the true cost factors of their rows. */
function tablesWith(factors?: ReadonlyMap<string, number>): PlannedTable[] {
  return names.map((name, i) =>
    plannedTable(name, {
      ...{ rows: 100_000, poolingFactor: 4 + 3 * (i % 5), schemes: ["table-wise"] },
      costFactor: factors?.get(name),
    }),
  );
}

const settingWith = (factors?: ReadonlyMap<string, number>) =>
  settingOf(tablesWith(factors), devices);

/** A random plan, with three tables on each device. */
function planBy(stream: RandomStream): Plan {
  const left = [...names];
  const shards = names.map((_, i) => {
    const [table = ""] = left.splice(stream.below(left.length), 1);
    const where = { table, scheme: "table-wise", tier: "memory", device: i % 4 } as const;
    return { ...where, firstBlock: 0, blocks: 1, firstQuantum: 0, quanta: 2 };
  });
  return { devices, shards };
}

/** The measurements of a run on a machine that is three times slower in everything. */
function measuredOf(
  costs: ReadonlyMap<string, number>,
  plan: Plan,
  speeds = [1, 1, 1, 1],
): MeasuredPlan {
  const { devices: own } = assessPlan(settingWith(costs), plan);
  return { plan, seconds: own.map(({ busy }, rank) => (3 * busy) / (speeds[rank] ?? 1)) };
}

const truth = new Map(names.map((name, i) => [name, [1, 1.8, 0.6][i % 3] ?? 1]));

test("a symmetric system of equations is solved", (t) => {
  const a = [
    [4, 2, 0],
    [2, 5, 1],
    [0, 1, 3],
  ];
  const x = [1, -2, 0.5];
  const b = a.map((row) => row.reduce((sum, value, i) => sum + value * (x[i] ?? 0), 0));
  const found = solveSymmetric(a, b);
  for (const [i, value] of x.entries()) t.true(Math.abs((found[i] ?? 0) - value) < 1e-12);
});

test("if devices are as predicted, or slower by one factor, table factors are 1", (t) => {
  const none = new Map<string, number>();
  const plan = planBy(new RandomStream(1, purposes.sampleOrder));
  for (const [, factor] of costFactors(settingWith(), [measuredOf(none, plan)])) {
    near(t, factor, 1, 1e-9);
  }
  const idle = { plan, seconds: [0, 0, 0, 0] };
  t.is(costFactors(settingWith(), [idle]).size, 0);
  t.is(costFactors(settingWith(), []).size, 0);
});

test("each measured plan separates the tables' costs, and improves other predictions", (t) => {
  const stream = new RandomStream(2, purposes.sampleOrder);
  const plans = Array.from({ length: 8 }, () => planBy(stream));
  const unseen = Array.from({ length: 20 }, () => planBy(stream));
  /** The mean relative error of the devices' work under unseen plans. */
  const errorWith = (factors?: ReadonlyMap<string, number>) => {
    const errors = unseen.flatMap((plan) => {
      const real = assessPlan(settingWith(truth), plan).devices.map(({ busy }) => busy);
      const own = assessPlan(settingWith(factors), plan).devices.map(({ busy }) => busy);
      const scale = real.reduce((a, b) => a + b, 0) / own.reduce((a, b) => a + b, 0);
      return real.map((busy, i) => Math.abs(scale * (own[i] ?? 0) - busy) / busy);
    });
    return errors.reduce((sum, error) => sum + error, 0) / errors.length;
  };
  const measured = plans.map((plan) => measuredOf(truth, plan));
  const errors = [0, 1, 4, 8].map((count) =>
    errorWith(count === 0 ? undefined : costFactors(settingWith(), measured.slice(0, count))),
  );
  t.log(`errors after 0, 1, 4 and 8 plans: ${errors.map((error) => error.toFixed(4)).join(", ")}`);
  const [before = 0, one = 0, four = 0, eight = 0] = errors;
  t.true(one < before && four < one / 2 && eight < before / 10, errors.join());
});

test("a device that is slow with any tables hardly changes their factors", (t) => {
  const stream = new RandomStream(4, purposes.sampleOrder);
  const none = new Map<string, number>();
  const slow = Array.from({ length: 6 }, () => measuredOf(none, planBy(stream), [1, 1, 0.6, 1]));
  const off = (measured: readonly MeasuredPlan[]) => {
    const factors = [...costFactors(settingWith(), measured).values()];
    return factors.reduce((most, factor) => Math.max(most, Math.abs(factor - 1)), 0);
  };
  const [one, two, six] = [off(slow.slice(0, 1)), off(slow.slice(0, 2)), off(slow)];
  t.log(`factors are off by ${[one, two, six].map((share) => share.toFixed(3)).join(", ")}`);
  t.true(two < one && six < two && six < 0.06, `${one}, ${two}, ${six}`);
});

test("the plan by measured factors is nearly the best by true ones", (t) => {
  const stream = new RandomStream(3, purposes.sampleOrder);
  const measured = Array.from({ length: 6 }, () => measuredOf(truth, planBy(stream)));
  const scoreBy = (factors?: ReadonlyMap<string, number>) => {
    const { best } = searchPlan(settingWith(factors));
    return best === undefined ? Number.NaN : assessPlan(settingWith(truth), best.plan).score;
  };
  const formulas = scoreBy();
  const refined = scoreBy(costFactors(settingWith(), measured));
  const best = scoreBy(truth);
  t.log(`${formulas}, ${refined}, ${best}`);
  t.true(refined < formulas && refined <= 1.03 * best);
});
