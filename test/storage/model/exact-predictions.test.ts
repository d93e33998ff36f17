// Predictions of a file equal those of `Model.predict`, and their logits those of an evaluation:
// bit for bit, in every format, for two architectures and a model of several tasks.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { tableFromIPC } from "apache-arrow";
import test from "ava";
import { parquetReadObjects } from "hyparquet";
import { predictFile } from "../../../packages/serve/predict/predict-file.ts";
import { createRecordEncoder } from "../../../src/data/records.ts";
import { shapesOf } from "../../../src/model/features.ts";
import { loadModel } from "../../../storage/model/load-model.ts";
import { startDirectory } from "../../data/data-files.ts";
import { startTrained } from "../../helpers/devices/trained.ts";
import { clicks, clicksJob, type models, writeClicks } from "../../helpers/models/clicks.ts";

/** The numbers of some columns of a file, row by row. */
async function numbersIn(path: string, columns: readonly string[]): Promise<Float32Array> {
  const bytes = readFileSync(path);
  const rows = await rowsIn(path, bytes);
  return Float32Array.from(rows.flatMap((row) => columns.map((name) => Number(row[name]))));
}

async function rowsIn(path: string, bytes: Buffer): Promise<Record<string, unknown>[]> {
  if (path.endsWith(".parquet")) {
    return (await parquetReadObjects({ file: new Uint8Array(bytes).buffer })) as never;
  }
  if (path.endsWith(".arrow")) {
    return tableFromIPC(bytes)
      .toArray()
      .map((row) => row.toJSON());
  }
  const lines = bytes.toString().trimEnd().split("\n");
  if (path.endsWith(".jsonl")) return lines.map((line) => JSON.parse(line));
  const [names = [], ...others] = lines.map((line) => line.split(","));
  return others.map((fields) => Object.fromEntries(names.map((name, i) => [name, fields[i]])));
}

/** Numbers as bits, which distinguish -0 from 0, and one NaN from another. */
function bitsOf(values: Float32Array): number[] {
  return [...new Uint32Array(values.buffer, values.byteOffset, values.length)];
}

for (const kind of ["dlrm", "dcn", "tasks"] as const satisfies (keyof typeof models)[]) {
  test(`predictions of a file have the bits of the model's and of an evaluation: ${kind}`, async (t) => {
    const home = startDirectory(t);
    const path = join(home, "clicks.csv");
    writeClicks(path);
    const job = clicksJob(home, kind);
    const trained = await startTrained(job, { devices: 2 });
    await trained.train({ cut: 1 });
    await trained.train({ cut: 2 });
    const { logits } = await trained.devices.evaluate([trained.samples]);

    await using model = await loadModel(join(home, "checkpoints"));
    const { data, model: spec } = model.job;
    const batch = createRecordEncoder(data, shapesOf(spec), model.means).encode(clicks);
    t.is(logits.length, clicks.length * model.tasks.length);
    t.deepEqual(bitsOf(await model.logitsOf(batch)), bitsOf(logits));
    const own = await model.predict(clicks);
    t.deepEqual(bitsOf(own), bitsOf(logits.map((logit) => 1 / (1 + Math.exp(-logit)))));
    t.true(new Set(own).size > 9);

    const columns =
      model.tasks.length === 1 ? ["probability"] : model.tasks.map((name) => `probability.${name}`);
    for (const out of ["a.csv", "a.jsonl", "a.parquet", "a.arrow"]) {
      const { means, samples } = await predictFile(model, path, join(home, out));
      t.deepEqual(bitsOf(await numbersIn(join(home, out), columns)), bitsOf(own), out);
      for (const [at, task] of model.tasks.entries()) {
        const values = own.filter((_, i) => i % columns.length === at);
        t.is(means[task], values.reduce((sum, one) => sum + one, 0) / samples, task);
      }
    }
  });
}
