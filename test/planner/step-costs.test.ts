// Fixed costs of a step besides bytes and products: by the number of devices, and in a prediction.

import test from "ava";
import { assessPlan, readSeconds } from "../../src/planner/assess.ts";
import { defaultConstants, serverConstants, slowed } from "../../src/planner/cost/constants.ts";
import { costOf, type Setting } from "../../src/planner/cost/cost.ts";
import { noStepCosts, type StepCosts, stepCostsOn } from "../../src/planner/cost/step-costs.ts";
import { searchPlan } from "../../src/planner/search.ts";
import type { Plan } from "../../src/planner/shards.ts";
import { fc } from "../helpers/properties.ts";
import { near, plannedTable, settingOf } from "../helpers/stores/plans.ts";

const onOne: StepCosts = {
  ...{ devices: 1, rowSpeed: 1, denseSpeed: 1 },
  ...{ step: 2e-4, shard: 1e-5, vector: 1e-8, element: 1e-9, id: 1e-8 },
  ...{ activation: 1e-9, product: 1e-10, layer: 5e-6, parameter: 1e-9 },
  ...{ sliceParameter: 1e-10, sliceRow: 1e-7 },
  ...{ readBatch: 2e-5, readSample: 2e-7, readBag: 1e-8, readId: 5e-9 },
};
const onTwo: StepCosts = { ...onOne, devices: 2, step: 8e-4, shard: 3e-5 };
const steps = [onTwo, onOne];

/** A setting of tables of 16 columns on devices of one host, with some layers. */
function smallSetting(tables: number, perHost: number, batchSize = 256): Setting {
  const planned = Array.from({ length: tables }, (_, i) =>
    plannedTable(`T${i}`, { dim: 16, poolingFactor: 1 + (i % 3), schemes: ["table-wise"] }),
  );
  const setting = settingOf(planned, { hosts: 1, perHost }, { steps }, batchSize);
  const dense = {
    denseParameters: 1000 * tables,
    denseFlop: 6000,
    denseActivations: 200,
    denseOwnProducts: 50,
    denseLayers: 4,
  };
  return { ...setting, workload: { ...setting.workload, ...dense } };
}

function stepOf(setting: Setting): number {
  const { best } = searchPlan(setting);
  return best === undefined ? Number.NaN : assessPlan(setting, best.plan).step;
}

test("step costs are interpolated between measured device counts, and rise beyond them", (t) => {
  t.deepEqual(stepCostsOn(steps, 1), onOne);
  t.deepEqual(stepCostsOn(steps, 2), onTwo);
  t.deepEqual(stepCostsOn([], 5), noStepCosts);
  const onFour = { ...onOne, devices: 4, step: 1e-3, shard: 7e-5 };
  const three = stepCostsOn([...steps, onFour], 3);
  near(t, three.step, 9e-4);
  near(t, three.shard, 5e-5);
  const eight = stepCostsOn([...steps, onFour], 8);
  near(t, eight.step, 1e-3 + 2 * 2e-4);
  t.is(eight.shard, onFour.shard);
  // A measured decrease with more devices is not extrapolated.
  const falling = stepCostsOn([onOne, { ...onTwo, step: 1e-4 }], 4);
  t.is(falling.step, 1e-4);
});

test("more devices are never predicted to cost nothing", (t) => {
  const count = fc.integer({ min: 1, max: 128 });
  fc.assert(
    fc.property(count, (devices) => {
      const setting = smallSetting(1, devices);
      const { best } = searchPlan(setting);
      const { overhead } = assessPlan(
        setting,
        best?.plan ?? { devices: setting.devices, shards: [] },
      ).stages;
      return overhead >= onOne.step && (devices === 1 || overhead >= onTwo.step);
    }),
    { numRuns: 30 },
  );
  t.pass();
});

test("a shard adds to a plan's score; vectors and ids cost on the samples' device", (t) => {
  const setting = smallSetting(3, 1);
  const table = plannedTable("T", { dim: 16, poolingFactor: 3 });
  const whole = { firstBlock: 0, blocks: 1, firstQuantum: 0, quanta: 1 };
  const own = { ...setting, workload: { ...setting.workload, tables: [table] } };
  const { seconds, cost } = costOf(own, table, "table-wise", "memory", whole);
  near(t, seconds.overhead, 1e-5);
  t.true(cost >= seconds.overhead);
  // The cost of vectors and ids falls on the samples' device, wherever the rows lie.
  const onTwoDevices = { ...own, devices: { hosts: 1, perHost: 2 } };
  const copy = costOf(onTwoDevices, table, "data-parallel", "memory", whole).seconds;
  near(t, copy.overhead, 3e-5);
  const stepOn = (two: boolean, pooled: number) => {
    const one = { ...table, poolingFactor: pooled };
    const from = two ? onTwoDevices : own;
    const of = { ...from, workload: { ...from.workload, tables: [one] } };
    const tile = { table: "T", scheme: "table-wise", tier: "memory", device: 0, ...whole } as const;
    return assessPlan(of, { devices: of.devices, shards: [tile] }).stages.overhead;
  };
  near(t, stepOn(false, 4) - stepOn(false, 3), 256 * 1e-8, 1e-6);
  near(t, stepOn(true, 4) - stepOn(true, 3), 128 * 1e-8, 1e-6);
});

test("layers cost their values, their parameters, and products of a sample's own values", (t) => {
  const setting = smallSetting(2, 1);
  const workload = {
    ...setting.workload,
    tables: [],
    denseActivations: 300,
    denseOwnProducts: 7000,
    denseLayers: 4,
  };
  const shards: Plan["shards"] = [];
  const { stages } = assessPlan({ ...setting, workload }, { devices: setting.devices, shards });
  near(t, stages.overhead, 2e-4 + 4 * 5e-6 + 256 * (300 * 1e-9 + 7000 * 1e-10) + 2000 * 1e-9);
});

test("more slices cost further sums: of dense parameters, and of rows that several slices have", (t) => {
  const on = (slices: number | undefined, perHost: number, rows: number): Setting => {
    const setting = smallSetting(1, perHost);
    const of = { dim: 16, rows, poolingFactor: 2, zipf: 0, schemes: ["table-wise"] as const };
    const workload = { ...setting.workload, tables: [plannedTable("T", of)], slices };
    return { ...setting, workload };
  };
  const [one, unlike] = [1, 1e7];
  near(t, stepOf(on(undefined, 1, one)), stepOf(on(8, 1, one)));
  t.is(stepOf(on(2, 1, one)), stepOf(on(8, 1, one)));
  // 56 slices more: with one row, all slices share it; with 10^7 rows, no two slices share one.
  const dense = 56 * 1000 * 1e-10;
  near(t, stepOf(on(64, 1, one)) - stepOf(on(8, 1, one)), dense + 56 * 1e-7, 0.01);
  near(t, stepOf(on(64, 1, unlike)) - stepOf(on(8, 1, unlike)), dense, 0.01);
  // Each device has half of the slices; the device that has the row adds up the sums of all slices.
  near(t, stepOf(on(64, 2, one)) - stepOf(on(8, 2, one)), dense / 2 + 56 * 1e-7, 0.01);
  const steps = [8, 16, 32, 64, 128, 256].map((slices) => stepOf(on(slices, 1, 100)));
  t.deepEqual(
    steps,
    [...new Set(steps)].sort((a, b) => a - b),
  );
  const tile = { firstBlock: 0, blocks: 1, firstQuantum: 0, quanta: 1 };
  const { workload, ...others } = on(64, 2, one);
  const copies = (slices: number) => {
    const of = { ...others, workload: { ...workload, slices } };
    const [table = plannedTable("T")] = workload.tables;
    return costOf(of, table, "data-parallel", "memory", tile).seconds.overhead;
  };
  near(t, copies(64) - copies(8), (56 * 1e-7) / 2, 0.01);
});

test("one more table, or a larger batch, never makes a step shorter", (t) => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 12 }),
      fc.integer({ min: 1, max: 3 }),
      fc.integer({ min: 1, max: 64 }),
      (tables, devices, tens) => {
        const now = stepOf(smallSetting(tables, devices, 10 * tens));
        const oneMore = stepOf(smallSetting(tables + 1, devices, 10 * tens));
        const larger = stepOf(smallSetting(tables, devices, 10 * tens + 10));
        return oneMore > now && larger > now;
      },
    ),
    { numRuns: 60 },
  );
  t.pass();
});

test("devices wait for a slower reader, and less with more readers", (t) => {
  const slow = { ...onOne, readSample: 1e-5 };
  const setting = smallSetting(2, 1);
  const constants = { ...setting.constants, steps: [slow] };
  const on = (readers: number): Setting => {
    return { ...setting, constants, workload: { ...setting.workload, readers } };
  };
  near(t, readSeconds(on(1)), 2e-5 + 256 * (1e-5 + 2 * 1e-8 + 3 * 5e-9));
  t.true(stepOf(on(1)) >= readSeconds(on(1)));
  t.true(stepOf(on(1)) < 1.01 * readSeconds(on(1)));
  t.true(stepOf(on(4)) < stepOf(on(1)) / 2);
  // Fast reading is hidden by the step.
  t.true(
    stepOf(setting) < 1.01 * stepOf({ ...setting, workload: { ...setting.workload, readers: 16 } }),
  );
});

test("a device and its readers share the processors, if there are too few of them", (t) => {
  const setting = smallSetting(2, 1);
  const steps = [{ ...onOne, readSample: 1e-6 }];
  const on = (cores: number | undefined, readers: number): Setting => {
    const { cores: _, ...others } = setting.constants;
    const constants = { ...others, steps, ...(cores === undefined ? {} : { cores }) };
    return { ...setting, constants, workload: { ...setting.workload, readers } };
  };
  const work = stepOf({
    ...setting,
    constants: {
      ...on(undefined, 1).constants,
      steps: [{ ...onOne, readBatch: 0, readSample: 0, readBag: 0, readId: 0 }],
    },
  });
  const reading = readSeconds(on(1, 1));
  near(t, stepOf(on(1, 1)), work + reading);
  near(t, stepOf(on(1, 4)), work + reading);
  t.true(stepOf(on(2, 1)) < 0.8 * (work + reading));
  t.true(stepOf(on(2, 1)) >= (work + reading) / 2);
  t.is(stepOf(on(2, 1)), stepOf(on(undefined, 1)));
});

test("more devices than processors take turns", (t) => {
  const setting = smallSetting(4, 4);
  const onCores = (cores: number) =>
    stepOf({ ...setting, constants: { ...setting.constants, cores } });
  near(t, onCores(2), 2 * onCores(4));
  t.is(onCores(8), onCores(4));
});

test("a single device's rows and layers are faster by the measured factors", (t) => {
  const bytes = { memoryBandwidth: 1e9, denseFlops: 1e9, backwardFactor: 1 };
  const stagesOn = (perHost: number) => {
    const setting = smallSetting(2, perHost);
    const fast = { ...onOne, rowSpeed: 1.6, denseSpeed: 1.25 };
    const constants = { ...setting.constants, ...bytes, steps: [fast, onTwo] };
    const shards = setting.workload.tables.map(({ name }) => ({
      ...({ table: name, scheme: "table-wise", tier: "memory", device: 0 } as const),
      ...{ firstBlock: 0, blocks: 1, firstQuantum: 0, quanta: 1 },
    }));
    return assessPlan({ ...setting, constants }, { devices: setting.devices, shards }).stages;
  };
  const [alone, beside] = [stagesOn(1), stagesOn(2)];
  near(t, alone.lookup, beside.lookup / 1.6);
  near(t, alone.update, beside.update / 1.6);
  near(t, alone.dense, (2 * beside.dense) / 1.25);
});

test("the default constants have no fixed step costs", (t) => {
  const setting = { ...smallSetting(3, 2), constants: defaultConstants };
  const { best } = searchPlan(setting);
  const { stages } = assessPlan(setting, best?.plan ?? { devices: setting.devices, shards: [] });
  t.is(stages.overhead, 0);
  t.is(stages.read, 0);
});

test("a machine slower by a factor has predictions that are slower by it, in every stage", (t) => {
  for (const constants of [defaultConstants, serverConstants]) {
    const setting = { ...smallSetting(9, 2), constants };
    const { best } = searchPlan(setting);
    if (best === undefined) return t.fail("small tables fit any device");
    const [fast, slow] = [setting, { ...setting, constants: slowed(constants, 3) }].map((of) =>
      assessPlan(of, best.plan),
    );
    if (fast === undefined || slow === undefined) return;
    near(t, slow.step, 3 * fast.step, 1e-9);
    near(t, slow.score, 3 * fast.score, 1e-9);
    for (const [stage, seconds] of Object.entries(fast.stages)) {
      near(t, slow.stages[stage as keyof typeof slow.stages], 3 * seconds, 1e-6);
    }
  }
});
