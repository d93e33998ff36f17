// Weighted bags from a file to predictions. test/training/step/weights.test.ts trains them on
// several numbers of devices.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { csv, type JobOptions, loadModel } from "../../../index.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { startDirectory } from "../../data/data-files.ts";
import { runJob } from "../../helpers/clusters/clusters.ts";
import type { EitherCluster } from "../../helpers/clusters/either-cluster.ts";
import { startCluster } from "../../helpers/clusters/either-clusters.ts";

const samples = 1500;
const items = 40;

/** Click logs: an item's weight determines how much the item affects the label. */
function writeClicks(t: ExecutionContext): { clicks: string; plain: string } {
  const directory = startDirectory(t);
  const stream = new RandomStream(3, 4, 5);
  const texts = { clicks: "y,item,user\n", plain: "y,item,user\n" };
  for (let line = 0; line < samples; line++) {
    const length = stream.below(4);
    const ids = Array.from({ length }, () => stream.below(items));
    const weights = ids.map(() => stream.below(16) / 8);
    const score = ids.reduce((sum, id, i) => sum + (id % 2 === 0 ? 1 : -1) * (weights[i] ?? 0), 0);
    const label = score + stream.normal() / 4 > 0 ? 1 : 0;
    const user = stream.below(20);
    texts.clicks += `${label},${ids.map((id, i) => `${id}:${weights[i]}`).join("|")},u${user}\n`;
    texts.plain += `${label},${ids.join("|")},u${user}\n`;
  }
  const paths = Object.entries(texts).map(([name, text]) => {
    const path = join(directory, `${name}.csv`);
    writeFileSync(path, text);
    return [name, path];
  });
  return Object.fromEntries(paths);
}

function jobOn(place: EitherCluster, path: string): JobOptions {
  const item = { column: "item", ids: "integer", separator: "|", weightSeparator: ":" } as const;
  const categorical = [item, "user"];
  const tables = [
    { name: "item", rows: items, dim: 8 },
    { name: "user", rows: 50, dim: 8 },
  ];
  const job = place.job({
    model: { kind: "dlrm", tables, top: [8, 1] },
    optimizer: { sparse: { kind: "rowWiseAdagrad", learningRate: 0.1 } },
  });
  const { cache } = job.data;
  return { ...job, data: csv(path, { label: "y", categorical, batchSize: 64, epochs: 5, cache }) };
}

test.serial(
  "a model of weighted bags predicts as it was evaluated, and requires weights",
  async (t) => {
    const { clicks, plain } = writeClicks(t);
    await using place = await startCluster(2);
    const { result } = await runJob(place, jobOn(place, clicks));
    await using model = await loadModel(result.directory);
    const { auc, logLoss } = await model.evaluate();
    t.deepEqual([auc, logLoss], [result.auc, result.logLoss]);
    const [light = 0, heavy = 0] = await model.predict([
      { item: "4:0.125", user: "u1" },
      { item: ["4:2"], user: "u1" },
    ]);
    t.true(light < heavy, `${light} ${heavy}`);
    const batch = {
      samples: 1,
      dense: new Float32Array(0),
      lengths: Int32Array.of(1, 1),
      ids: Int32Array.of(4, 1),
    };
    for (const [weights, message] of [
      [undefined, /`batch\.weights` to be 2 numbers, one for each id, got nothing/],
      [Float32Array.of(1), /`batch\.weights` to be 2 numbers/],
      [Float32Array.of(1, Number.NaN), /`batch\.weights\[1\]` to be a finite number, got `NaN`/],
    ] as const) {
      await t.throwsAsync(model.predictBatch({ ...batch, weights }), { message });
    }
    const weights = Float32Array.of(2, 1);
    t.is((await model.predictBatch({ ...batch, weights })).length, 1);
    const categorical = [{ column: "item", ids: "integer" as const, separator: "|" }, "user"];
    const unweighted = csv(plain, { label: "y", categorical, batchSize: 64 });
    await t.throwsAsync(model.evaluate(unweighted), {
      message:
        'Expected `data.categorical[0].weightSeparator` to be ":", as in the training data (leave ' +
        "it out, and it is taken from there; `dataDiffers: true` allows another), got nothing",
    });
  },
);
