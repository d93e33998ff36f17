// Tasks of a device: counted by hand, timed from a timeline, and their costs found by the fit.

import test from "ava";
import {
  graphOf,
  planJob,
  RandomStream,
  resolveJob,
  stepTasks,
  waitedFor,
  workloadOf,
} from "../../../../internal.ts";
import { serverConstants } from "../../../../src/planner/cost/constants.ts";
import { stepFactsOfPlan } from "../../predict/step-facts.ts";
import { fitTaskCosts, taskSeconds } from "../../tasks/task-costs.ts";
import { costsOf, plannedProbe, usualProbing, withJitter } from "../../tasks/task-probes.ts";
import { taskTimesOf } from "../../tasks/task-times.ts";
import { repeatedMisses, taskUnitsOf } from "../../tasks/task-units.ts";

const constants = { ...serverConstants, memoryBytes: 8e9 };

test("the units of a step are those counted by hand", (t) => {
  const job = resolveJob({
    model: {
      ...{ kind: "dlrm", dense: 3, interaction: "cat", bottom: [5], top: [1] },
      tables: [
        { name: "a", rows: 7, dim: 4 },
        { name: "b", rows: 7, dim: 8 },
      ],
    },
    data: { kind: "synthetic", samples: 64, dense: 3, batchSize: 16, idsPerBag: 2 },
    exchange: { forward: "bfloat16", backward: "int8" },
    checkpoint: { directory: "none" },
    sharding: "as-written",
  });
  const devices = { hosts: 1, perHost: 2 };
  const planned = planJob(job, { devices, constants });
  if (!planned.isFeasible) return t.fail("It fits");
  const { plan } = planned;
  const setting = { workload: workloadOf(job), devices, constants };
  const { exchange, model } = job;
  const unitsOf = taskUnitsOf({ setting, plan, graph: graphOf(model), exchange });
  const holds = (rank: number) => plan.shards.filter(({ device }) => device === rank);
  for (const rank of [0, 1]) {
    // 8 own samples have two bags of two ids each; a table on this device has the bags of all 16.
    const { ids, receiveIds, lookup, receiveReads, sendGradients, ...dense } = unitsOf(rank);
    const { forwardEarly, forwardLate, backwardEarly, backwardLate } = dense;
    const held = holds(rank);
    const columns = held.reduce((sum, { table }) => sum + (table === "a" ? 4 : 8), 0);
    t.like(ids, { step: 1, table: 2, bag: 16, id: 32 });
    t.like(receiveIds, { shard: held.length, bag: 16 * held.length, id: 32 * held.length });
    t.like(lookup, { idColumn: 32 * columns, element: 16 * columns, half: 16 * columns });
    t.like(receiveReads, { element: 8 * 12, half: 8 * 12 });
    t.like(sendGradients, { element: 8 * 12, scaled: 8 * 12 });
    // Layers of (3 + 1) × 5 before the vectors, and of (17 + 1) × 1 after them: 1 for the bias. The
    // block that the vectors are written into has no weights.
    t.like(forwardEarly, { block: 1, parameter: 20, product: 8 * 20, own: 0 });
    t.like(forwardLate, { block: 2, parameter: 18, product: 8 * 18 });
    // The all-reduce takes all 38 weights from the last task of the backward pass.
    t.like(backwardEarly, { parameter: 20, gradient: 38 });
    t.is(backwardLate?.gradient, undefined);
    const { rowColumn = 0 } = lookup ?? {};
    const values = [forwardEarly, forwardLate].reduce((sum, own) => {
      return sum + (own?.activation ?? 0) + (own?.moved ?? 0);
    }, 0);
    const bytes = 4 * (2 * values + 3 * 38 + 2 * rowColumn + 3 * 8 * 12 + 3 * 32 * held.length);
    for (const own of [ids, lookup, forwardLate]) t.is(own?.cold, bytes / (bytes + 16e6));
    const tables = 4 * 7 * columns;
    t.is(lookup?.farColumn, (rowColumn * tables) / (tables + 1e9));
  }
  // A device beside those that train holds rows, and has no samples.
  const beside = taskUnitsOf({ setting, plan, graph: graphOf(model), exchange, samples: [16, 0] });
  for (const [rank, samples] of [16, 0].entries()) {
    const { ids, receiveReads, forwardEarly, receiveIds } = beside(rank);
    t.like(ids, { bag: 2 * samples, id: 4 * samples });
    t.like(receiveReads, { element: 12 * samples });
    t.like(forwardEarly, { product: 20 * samples });
    t.like(receiveIds, { ...unitsOf(rank).receiveIds, cold: receiveIds?.cold });
  }
});

test("a timeline is divided into the tasks and waits of a step, by their means", (t) => {
  const at = (name: (typeof stepTasks)[number]) => stepTasks.indexOf(name);
  const records: Parameters<typeof taskTimesOf>[0] = [0, 1, 2, 3].flatMap((step) => {
    const from = 100 * step;
    // The third step is interrupted in its lookup, by 50 ms; it and the fourth count.
    const late = step === 2 ? 50 : 0;
    return [
      { kind: "task" as const, what: at("lookup"), fromMs: from, toMs: from + 4 + late },
      {
        kind: "wait" as const,
        what: waitedFor.indexOf("pooled"),
        fromMs: from + 61,
        toMs: from + 64,
      },
      { kind: "task" as const, what: at("receiveReads"), fromMs: from + 60, toMs: from + 66 },
      { kind: "task" as const, what: at("losses"), fromMs: from + 66, toMs: from + 67 },
    ];
  });
  const { between, ...tasks } = taskTimesOf(records);
  const expected = {
    lookup: 0.004 + 0.05 / 2,
    "wait.pooled": 0.003,
    receiveReads: 0.003,
    losses: 0.001,
  };
  t.deepEqual(Object.keys(tasks).sort(), Object.keys(expected).sort());
  for (const [name, seconds] of Object.entries(expected)) {
    t.true(Math.abs((tasks[name] ?? 0) - seconds) < 1e-12, `${name}: ${tasks[name]}`);
  }
  t.true(Math.abs((between ?? 0) - (0.056 - 0.05 / 2 + 0.033)) < 1e-12);
});

test("for repeated batches, predicted cache misses equal those counted for drawn ids", (t) => {
  const [rows, draws, batches] = [4096, 512, 64];
  for (const zipf of [0.8, 1.2]) {
    const whole = Array.from({ length: rows }, (_, k) => (k + 1) ** -zipf);
    const bounds: number[] = [];
    for (const own of whole) bounds.push((bounds.at(-1) ?? 0) + own);
    const random = new RandomStream(5, 6, 7);
    const needed = new Array<number>(rows).fill(0);
    for (let batch = 0; batch < batches; batch++) {
      const ids = Array.from({ length: draws }, () => {
        const at = random.uniform() * (bounds.at(-1) ?? 0);
        return bounds.findIndex((bound) => bound > at);
      });
      for (const id of new Set(ids)) needed[id] = (needed[id] ?? 0) + 1;
    }
    needed.sort((a, b) => b - a);
    const all = needed.reduce((sum, own) => sum + own, 0);
    const seen = needed.filter((own) => own > 0).length;
    for (const hot of [40, 400, 1000, seen - 100]) {
      const missed = needed.slice(hot).reduce((sum, own) => sum + own, 0) / all;
      const found = repeatedMisses({ rows, zipf, draws }, hot, batches);
      t.true(Math.abs(found - missed) <= 0.02, `${zipf}, ${hot}: ${found} for ${missed}`);
    }
    t.is(repeatedMisses({ rows, zipf, draws }, Math.ceil(1.1 * seen), batches), 0);
  }
});

test("only waits beyond those of a probe's simulation are added to its tasks", (t) => {
  const { job, counted } = plannedProbe(
    { index: 4, devices: [2], ...usualProbing.limits },
    "none",
    constants,
  );
  const facts = stepFactsOfPlan({ job, plan: counted.plan, devices: { hosts: 1, perHost: 2 } });
  const unitsOf = taskUnitsOf(counted);
  const tasks = { lookup: 2e-3, forwardLate: 3e-3, backwardLate: 4e-3, updateRows: 1e-3 };
  const probed = (rank: number, times: Record<string, number>) => {
    return { facts, units: unitsOf(rank), times };
  };
  const near = (found: number | undefined, expected: number) =>
    t.true(Math.abs((found ?? 0) - expected) <= 1e-9, `${found} for ${expected}`);
  // The first device's lookup is longer, and the second one waits for it.
  const uneven = [
    probed(0, { ...tasks, lookup: 3e-3 }),
    probed(1, { ...tasks, "wait.pooled": 1e-3 }),
  ];
  const [first, second] = withJitter(uneven);
  near(first?.times.lookup, 3e-3);
  near(second?.times.forwardLate, 3e-3);
  // Both devices wait for a tenth of their tasks; the wait for a batch is not for the other device.
  const waits = { "wait.gradients": 1e-3, "wait.batch": 5e-3 };
  for (const { times } of withJitter([0, 1].map((rank) => probed(rank, { ...tasks, ...waits })))) {
    near(times.lookup, 1.1 * tasks.lookup);
    near(times["wait.batch"], 5e-3);
  }
});

test("the fit recovers the costs from which the times of tasks were computed", (t) => {
  const costs = { step: 3e-5, shard: 2e-6, id: 4e-9, rowColumn: 5e-10 };
  const truth = {
    devices: 1,
    tasks: {
      updateRows: costs,
      forward: { step: 1e-4, product: 3e-11, own: 6e-11, shared: 3e-11, small: 2e-7 },
    },
  };
  const measured = Array.from({ length: 16 }, (_, index) => {
    const probe = { index, devices: [1], ...usualProbing.limits };
    const units = taskUnitsOf(plannedProbe(probe, "none", constants).counted)(0);
    return { units, times: taskSeconds(truth, units) };
  });
  const found = fitTaskCosts(1, measured);
  for (const { units, times } of measured) {
    const again = taskSeconds(found, units);
    for (const task of ["updateRows", "forwardEarly", "forwardLate"] as const) {
      const [own = 0, real = 0] = [again[task], times[task]];
      t.true(Math.abs(own - real) <= 0.01 * real + 1e-6, `${task}: ${own} for ${real}`);
    }
  }
});

test("a probe's figure is of the faster half of its passes at the faster clock level", (t) => {
  const truth = { devices: 1, tasks: { losses: { step: 1e-3 }, updateDense: { parameter: 1e-9 } } };
  const probed = Array.from({ length: 3 }, (_, index) => {
    const probe = { index, devices: [1], ...usualProbing.limits };
    const { job, counted } = plannedProbe(probe, "none", constants);
    const devices = { hosts: 1, perHost: 1 };
    const units = taskUnitsOf(counted)(0);
    const passes = [
      ...[0.9, 1.5, 1.1, 9].map((factor) => ({ level: 90e9 + factor, factor })),
      ...[0.2, 0.2, 2].map((factor) => ({ level: 60e9, factor })),
    ].map(({ level, factor }) => {
      const times = Object.entries(taskSeconds(truth, units)).map(([task, own]) => {
        return [task, factor * own] as const;
      });
      return { level, times: [Object.fromEntries(times)] };
    });
    const facts = stepFactsOfPlan({ job, plan: counted.plan, devices });
    return { probe: index, devices: 1, facts, units: [units], passes };
  });
  const { level = 0, tasks } = costsOf(1, probed);
  t.true(Math.abs(level - 90e9) < 100);
  const { step = 0, cold = 0 } = tasks.losses ?? {};
  // Each probe has both costs, so the fit may divide the time between them in any way.
  for (const { units } of probed) {
    const found = step + cold * (units[0]?.losses?.cold ?? 0);
    t.true(Math.abs(found - 1e-3) < 1e-5, `${found}`);
  }
  t.true(Math.abs((tasks.updateDense?.parameter ?? 0) - 1e-9) < 1e-11);
});
