// The choice of the number of devices: the fastest by prediction, among numbers that fit.

import test from "ava";
import { resolveJob } from "../../../src/job/job.ts";
import { defaultConstants } from "../../../src/planner/cost/constants.ts";
import { noStepCosts } from "../../../src/planner/cost/step-costs.ts";
import { chooseDevices } from "../../../src/training/planning/choose-devices.ts";

const jobWith = (options: object = {}) =>
  resolveJob({
    model: {
      ...{ kind: "dlrm", dense: 4, bottom: [64], top: [512, 1] },
      tables: ["A", "B", "C", "D"].map((name) => ({ name, rows: 10_000, dim: 64 })),
    },
    data: { kind: "synthetic", samples: 1000, dense: 4, batchSize: 4096 },
    ...options,
  });
/** Constants of a slow machine where each device adds `more` to the cost of a step. */
const machine = (more: number) => ({
  ...defaultConstants,
  ...{ cores: 4, memoryBandwidth: 1e9, denseFlops: 1e10 },
  steps: [1, 2, 4].map((devices) => ({ ...noStepCosts, devices, step: 1e-4 + more * devices })),
});
const cores = 4;

test("one device is chosen where a step on more devices costs more than it saves", (t) => {
  const { devices, predictions } = chooseDevices(jobWith(), () => machine(1), { cores });
  t.is(devices, 1);
  t.deepEqual(
    predictions.map((one) => one.devices),
    [1, 2, 4],
  );
  const steps = predictions.map(({ step = 0 }) => step);
  t.deepEqual(steps, [...steps].sort());
});

test("as many devices as help are chosen where they save time", (t) => {
  t.is(chooseDevices(jobWith(), () => machine(0), { cores }).devices, 4);
  t.is(chooseDevices(jobWith({ slices: 2 }), () => machine(0), { cores }).devices, 2);
  const { cores: _, ...unknown } = machine(0);
  t.is(chooseDevices(jobWith(), () => unknown, { cores: 3 }).devices, 2);
});

test("more devices are not chosen for a gain below a tenth", (t) => {
  const quick = { allToAll: 1e30, reduceScatter: 1e30, allGather: 1e30, allReduce: 1e30 };
  const with2 = (step: number) => () => ({
    ...defaultConstants,
    ...{ cores: 2, memoryBandwidth: 1e30, denseFlops: 1e30, insideHost: quick },
    steps: [
      { ...noStepCosts, step: 1e-3 },
      { ...noStepCosts, devices: 2, step },
    ],
  });
  t.is(chooseDevices(jobWith(), with2(0.95e-3), { cores }).devices, 1);
  t.is(chooseDevices(jobWith(), with2(0.85e-3), { cores }).devices, 2);
});

test("device numbers without room are left out; if none has room, the most are chosen", (t) => {
  const narrow = (bytes: number) => (devices: number) => {
    return { ...machine(1), memoryBytes: bytes * devices };
  };
  const { devices, predictions, found } = chooseDevices(jobWith(), narrow(5e6), { cores });
  t.is(predictions[0]?.step, undefined);
  t.true(devices > 1 && found.isFeasible);
  const hopeless = chooseDevices(jobWith(), narrow(1), { cores });
  t.is(hopeless.devices, 4);
  t.false(hopeless.found.isFeasible);
});

test("a table that its scheme cannot cut is placed whole, as in a run", (t) => {
  const tables = [{ name: "A", rows: 100, dim: 16, sharding: "row-wise", rowBlocks: 1 }];
  const model = { kind: "dlrm", dense: 4, bottom: [16], top: [1], tables };
  const { found } = chooseDevices(jobWith({ model }), () => machine(0), { cores: 1 });
  t.true(found.isFeasible && found.plan.shards[0]?.scheme === "table-wise");
});
