// A calibration stored with a model: which callers apply it, how it moves with the model, and that
// no other model gets it.

import { copyFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { exportModel } from "../../../packages/formats/exports/export-model.ts";
import { ServedModel } from "../../../packages/serve/model/served-model.ts";
import {
  CalibrationMissingError,
  CheckpointCorruptError,
  InvalidOptionError,
} from "../../../src/errors/errors.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { listCheckpoints } from "../../../storage/checkpoints/list-checkpoints.ts";
import { openCheckpoint } from "../../../storage/checkpoints/open-checkpoint.ts";
import { calibrationPath } from "../../../storage/checkpoints/store/stored-calibration.ts";
import { verifyCheckpoints } from "../../../storage/checkpoints/verify-checkpoints.ts";
import { seal } from "../../../storage/disk/sealed-json.ts";
import { calibrateModel, removeCalibration } from "../../../storage/model/calibrate-model.ts";
import { calibrated } from "../../../storage/model/calibration.ts";
import { loadModel } from "../../../storage/model/load-model.ts";
import { startDirectory } from "../../data/data-files.ts";
import {
  clicks,
  clicksJob,
  drawClicks,
  type models,
  writeClicks,
} from "../../helpers/models/clicks.ts";
import { runInputs } from "../../helpers/models/onnx.ts";
import { sameValues } from "../../helpers/same-values.ts";
import { flipByte } from "../../helpers/stores/checkpoints.ts";
import { drawModel } from "../../helpers/stores/drawn-model.ts";

async function calibratedClicks(t: ExecutionContext, model?: keyof typeof models) {
  const drawn = await drawClicks(t, model);
  const report = await calibrateModel(drawn.directory, { data: { paths: [drawn.path] } });
  const { manifest } = openCheckpoint(drawn.directory);
  return { ...drawn, report, file: calibrationPath(drawn.directory, manifest.modelDigest) };
}

/** Predictions of a model on all lines, with the `calibration` option of `loadModel`. */
async function predictedBy(path: string, calibration: "stored" | "none" | "required" = "stored") {
  await using model = await loadModel(path, { calibration });
  return [...(await model.predict(clicks))];
}

test("a stored calibration applies where requested, bit for bit the same everywhere", async (t) => {
  const { directory, report, path, file } = await calibratedClicks(t);
  t.true(existsSync(file));
  const [task] = report.tasks;
  t.like(task, { task: "clicked", samples: 60, positives: 20 });
  t.is(report.by, path);
  t.true((task?.calibratedLogLoss ?? 9) < (task?.logLoss ?? 0) - 0.01);

  const raw = await predictedBy(directory, "none");
  const own = await predictedBy(directory);
  t.notDeepEqual(own, raw);
  for (const [i, probability] of raw.entries()) {
    const logit = Math.log(probability / (1 - probability));
    t.true(Math.abs((own[i] ?? 0) - calibrated(logit, task ?? { scale: 1, offset: 0 })) < 1e-5);
  }
  const mean = own.reduce((sum, one) => sum + one, 0) / own.length;
  t.true(Math.abs(mean - 1 / 3) < 0.02, `${mean}`);
  await using plain = await loadModel(directory);
  t.deepEqual([...(await plain.predict(clicks))], raw); // `loadModel` applies none unless asked.

  await using served = await ServedModel.open(directory);
  const answer = await served.predict(clicks);
  t.deepEqual([...answer.scores], own);
  t.deepEqual(answer.version, { digest: plain.digest, step: 1, calibrated: true });
  const ranked = await served.rank({}, clicks);
  t.deepEqual([...ranked.scores], own);
  await using rawServed = await ServedModel.open(directory, { calibration: "none" });
  const { scores, version } = await rawServed.predict(clicks);
  t.deepEqual([...scores], raw);
  t.deepEqual(version, { digest: plain.digest, step: 1 });
  // An evaluation has the metrics of the run, whether the model is calibrated or not.
  await using asked = await loadModel(directory, { calibration: "required" });
  const data = { paths: [path] };
  t.deepEqual(await asked.evaluate(data), await plain.evaluate(data));
  t.deepEqual(listCheckpoints(directory).checkpoints[0]?.calibration, "stored");
});

test("each task has its own calibration; a model of numeric labels has none", async (t) => {
  const { directory, report } = await calibratedClicks(t, "tasks");
  t.deepEqual(
    report.tasks.map((one) => one && [one.task, one.positives]),
    [
      ["clicked", 20],
      ["bought", 10],
    ],
  );
  const [raw, own] = [await predictedBy(directory, "none"), await predictedBy(directory)];
  const meanOf = (values: number[], task: number) => {
    return values.reduce((sum, one, i) => sum + (i % 2 === task ? one : 0), 0) / clicks.length;
  };
  t.true(Math.abs(meanOf(own, 0) - 1 / 3) < 0.02 && Math.abs(meanOf(own, 1) - 1 / 6) < 0.02);
  t.true(Math.abs(meanOf(raw, 1) - 1 / 6) > 0.05);

  const home = startDirectory(t);
  writeClicks(join(home, "clicks.csv"));
  const numbers = await drawModel({ ...clicksJob(home), loss: { kind: "mse" } });
  const data = { paths: [join(home, "clicks.csv")] };
  const refused = calibrateModel(numbers.checkpoint.directory, { data });
  const message = /Expected a model that predicts a probability: its labels are numbers/;
  await t.throwsAsync(refused, { instanceOf: InvalidOptionError, message });
});

test("a damaged or foreign calibration is refused in a sentence, and never applied", async (t) => {
  const { directory, file, home, path, report } = await calibratedClicks(t);
  const whole = readFileSync(file);
  const isRefused = async (message: RegExp) => {
    const expected = { instanceOf: CheckpointCorruptError, message };
    await t.throwsAsync(predictedBy(directory), expected);
    await t.throwsAsync(ServedModel.open(directory), expected);
    await t.throwsAsync(exportModel(directory, join(home, "m.osiris")), expected);
    t.false(existsSync(join(home, "m.osiris")));
    t.is(listCheckpoints(directory).checkpoints[0]?.calibration, "damaged");
    t.is((await predictedBy(directory, "none")).length, clicks.length);
  };
  for (const at of [0, 30, whole.length - 20]) {
    flipByte(realDisk, file, at);
    await isRefused(/is damaged: /);
    writeFileSync(file, whole);
  }
  writeFileSync(file, whole.subarray(0, 100));
  await isRefused(/it is cut short/);
  writeFileSync(file, "");
  await isRefused(/it is cut short/);
  const { directory: _, step: __, ...stored } = report;
  const broken = { ...stored, tasks: [{ ...stored.tasks[0], scale: null }] };
  writeFileSync(file, seal(broken).text);
  await isRefused(/its calibration has tasks\.0\.scale: .*osiris calibrate/);
  writeFileSync(file, seal({ ...stored, tasks: [{ ...stored.tasks[0], task: "sold" }] }).text);
  await t.throwsAsync(predictedBy(directory), { message: /of other labels than clicked/ });

  // The calibration of another model, under the file name of this one.
  const elsewhere = join(home, "elsewhere");
  const job = openCheckpoint(directory).job;
  const seeded = { ...job, seed: 9, checkpoint: { directory: elsewhere } } as never;
  await drawModel(seeded);
  const other = await calibrateModel(elsewhere, { data: { paths: [path] } });
  t.not(other.digest, report.digest);
  copyFileSync(calibrationPath(elsewhere, other.digest.slice(7)), file);
  await isRefused(/it calibrates the model sha256:\w{64}, not sha256:\w{64}; calibrate the model/);
  t.true(removeCalibration(directory));
  t.false(removeCalibration(directory));
  t.deepEqual(await predictedBy(directory), await predictedBy(directory, "none"));
  const missing = { instanceOf: CalibrationMissingError, message: /run `osiris calibrate`/ };
  await t.throwsAsync(predictedBy(directory, "required"), missing);
  await t.throwsAsync(ServedModel.open(directory, { calibration: "required" }), missing);
  const choice = predictedBy(directory, "all" as "none");
  await t.throwsAsync(choice, { message: /Expected `calibration` to be stored, required, none/ });
});

test("calibration with samples of one class is refused, and nothing is stored", async (t) => {
  const { directory, home } = await drawClicks(t);
  const path = join(home, "none.csv");
  writeClicks(path);
  const text = readFileSync(path, "utf8").replaceAll(/^1,/gm, "0,");
  writeFileSync(path, text);
  const refused = calibrateModel(directory, { data: { paths: [path] } });
  await t.throwsAsync(refused, { instanceOf: InvalidOptionError, message: /of both classes/ });
  await t.throwsAsync(calibrateModel(directory), { message: /the job holds nothing out/ });
  t.false(existsSync(join(directory, "calibrations")));
});

test("a calibration is exported with its model file, and the model's digest stays", async (t) => {
  const { directory, home, report, path } = await calibratedClicks(t);
  const own = await predictedBy(directory);
  const file = join(home, "m.osiris");
  await exportModel(directory, file);
  t.deepEqual(await predictedBy(file), own);
  t.is(listCheckpoints(file).checkpoints[0]?.calibration, "stored");
  t.like(await verifyCheckpoints(file), {
    isIntact: true,
    checkpoints: [{ digest: report.digest }],
  });

  // The calibration in a model file can be removed, and fitted again, without a new file.
  const before = readFileSync(file);
  t.true(removeCalibration(file));
  t.deepEqual(await predictedBy(file), await predictedBy(directory, "none"));
  removeCalibration(directory);
  await exportModel(directory, join(home, "plain.osiris"));
  sameValues(t, readFileSync(file), readFileSync(join(home, "plain.osiris")));
  const again = await calibrateModel(file, { data: { paths: [path] } });
  t.deepEqual(again, { ...report, directory: file });
  sameValues(t, readFileSync(file), before);
  t.like(await verifyCheckpoints(file), {
    isIntact: true,
    checkpoints: [{ digest: report.digest }],
  });
  t.deepEqual(await predictedBy(file), own);

  // A saved copy of the model has the calibration too.
  await using model = await loadModel(file);
  await model.save(join(home, "copy"));
  t.deepEqual(await predictedBy(join(home, "copy"), "required"), own);
});

test("other programs get the calibration: the last node of ONNX, and metadata", async (t) => {
  for (const kind of ["dlrm", "tasks"] as const) {
    const { directory, home, report } = await calibratedClicks(t, kind);
    const path = join(home, "m.onnx");
    await exportModel(directory, path);
    const { vectors } = JSON.parse(readFileSync(`${path}.json`, "utf8"));
    const made = await runInputs(path, vectors.inputs);
    t.deepEqual(made.outputs, ["logits", "predictions", "calibrated"]);
    await using model = await loadModel(directory, { calibration: "stored" });
    const own = await model.predict(vectors.records);
    t.deepEqual(vectors.calibrated.flat().map(Math.fround), [...own]);
    for (const [i, value] of own.entries()) {
      t.true(Math.abs(value - (made.calibrated?.[i] ?? Number.NaN)) <= vectors.tolerance);
      t.true(Math.abs(vectors.predictions.flat()[i] - (made.predictions[i] ?? 0)) <= 1e-6);
    }
    const { directory: _, step: __, ...stored } = report;
    for (const name of ["m.safetensors", ...(kind === "dlrm" ? ["m.pt"] : [])]) {
      const format = name === "m.pt" ? ({ format: "dlrm" } as const) : {};
      await exportModel(directory, join(home, name), format);
      const text = readFileSync(join(home, name), "latin1");
      const quoted = JSON.stringify(JSON.stringify(stored)).slice(1, -1);
      t.true(text.includes(quoted), name);
    }
  }
});
