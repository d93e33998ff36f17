// A server applies the calibration that is stored with a version, says so in every answer, and
// loads a calibration that appears while it serves.

import { cpSync, renameSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { calibrateModel, removeCalibration } from "../../../../storage/model/calibrate-model.ts";
import { loadModel } from "../../../../storage/model/load-model.ts";
import { recordsOf, startModel, startServer } from "../../../../test/helpers/models/served.ts";
import { until } from "../../../../test/helpers/until.ts";
import { exportModel } from "../../../formats/exports/export-model.ts";
import { exportDelta } from "../../model/export-delta.ts";

const records = recordsOf(3);
const predict = "/v1/models/m:predict";
const infer = "/v2/models/m/infer";
const tensors = {
  inputs: [
    { name: "I1", datatype: "FP32", shape: [1], data: [0.5] },
    { name: "I2", datatype: "FP32", shape: [1], data: [0] },
    { name: "A", datatype: "INT64", shape: [1], data: [1] },
    { name: "B", datatype: "INT64", shape: [1], data: [1] },
  ],
};

async function scoresIn(path: string, calibration: "stored" | "none"): Promise<number[]> {
  await using model = await loadModel(path, { manifest: "last", calibration });
  return [...(await model.predict(records))];
}

test("a server applies a calibration that appears, drops one that disappears, and answers say so", async (t) => {
  const model = await startModel(t);
  const { directory, home } = model;
  const file = `${home}/m.osiris`;
  await exportModel(directory, file);
  for (const path of [directory, file]) {
    const { server, post, get } = await startServer(t, { models: { m: { path } } });
    const raw = await scoresIn(path, "none");
    const first = (await post(predict, { instances: records })).body;
    t.deepEqual([first.predictions, first.calibrated], [raw, undefined]);
    await calibrateModel(path, { data: { samples: 64 } });
    await until("a calibration", () => server.versions.m?.calibrated === true);
    const own = await scoresIn(path, "stored");
    t.notDeepEqual(own, raw);
    const second = (await post(predict, { instances: records })).body;
    t.deepEqual([second.predictions, second.calibrated], [own, true]);
    t.is(second.version, first.version);
    t.true((await post(infer, tensors)).body.parameters.calibrated);
    t.true((await get("/v2/models/m")).body.parameters.calibrated);
    removeCalibration(path);
    await until("no calibration", () => server.versions.m?.calibrated === undefined);
    t.deepEqual((await post(predict, { instances: records })).body, first);
    t.false((await post(infer, tensors)).body.parameters.calibrated);
    await server.close();
  }
});

test("with `calibration: required`, a version without a calibration is not served", async (t) => {
  const model = await startModel(t);
  const { directory } = model;
  await calibrateModel(directory, { data: { samples: 64 } });
  const m = { path: directory, calibration: "required" } as const;
  const { server, post, get } = await startServer(t, { models: { m } });
  const before = (await post(predict, { instances: records })).body;
  t.true(before.calibrated);
  await model.train({ cut: 2 });
  const failureIn = async () => (await get("/v2/models/m")).body.parameters.failure;
  await until("a failure", async () => (await failureIn()) !== undefined);
  t.is((await failureIn()).code, "CALIBRATION_MISSING");
  t.deepEqual((await post(predict, { instances: records })).body, before);
  await calibrateModel(directory, { data: { samples: 64 } });
  await until("the version of step 2", () => server.versions.m?.step === 2);
  const after = (await post(predict, { instances: records })).body;
  t.deepEqual([after.predictions, after.calibrated], [await scoresIn(directory, "stored"), true]);
});

test("a model updated by a delta uses its own calibration, or none", async (t) => {
  const model = await startModel(t);
  const { directory, home } = model;
  await calibrateModel(directory, { data: { samples: 64 } });
  const served = join(home, "served");
  cpSync(directory, served, { recursive: true });
  const { server, post } = await startServer(t, { models: { m: { path: served } } });
  t.true(server.versions.m?.calibrated);
  const follow = async (step: number) => {
    await exportDelta(directory, join(home, "made"), { since: step - 1 });
    renameSync(join(home, "made"), join(served, `${step}.delta`));
    await until(`the version of step ${step}`, () => server.versions.m?.step === step);
    return (await post(predict, { instances: records })).body;
  };
  await model.train({ cut: 2 });
  await calibrateModel(directory, { manifest: "last", data: { samples: 64 } });
  cpSync(join(directory, "calibrations"), join(served, "calibrations"), { recursive: true });
  const second = await follow(2);
  t.deepEqual([second.predictions, second.calibrated], [await scoresIn(directory, "stored"), true]);
  await model.train({ cut: 3 });
  const third = await follow(3);
  t.deepEqual(
    [third.predictions, third.calibrated],
    [await scoresIn(directory, "none"), undefined],
  );
});
