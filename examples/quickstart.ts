// The first program: starts a cluster, submits a job, follows its events to the result, and
// predicts with the model. It reads generated data, so that it runs anywhere within seconds;
// `criteo.tsv("train.tsv", { batchSize: 2048 })` in place of `synthetic(...)` reads Criteo's logs.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { adam, Cluster, criteo, dlrm, loadModel, rowWiseAdagrad, synthetic } from "../index.ts";

const directory = mkdtempSync(join(tmpdir(), "quickstart-"));
await using cluster = await Cluster.start({ devices: 2 });
const run = await cluster.submit({
  model: dlrm({
    dense: 13,
    tables: criteo.tables({ dim: 16, rows: 1000 }),
    bottom: [64, 16],
    top: [64, 1],
  }),
  data: synthetic({ samples: 100_000, batchSize: 512, zipf: 1.7, cache: join(directory, "cache") }),
  optimizer: {
    dense: adam({ learningRate: 2e-3 }),
    sparse: rowWiseAdagrad({ learningRate: 0.05 }),
  },
  evaluation: { fraction: 0.1, everySteps: 50 },
  checkpoint: { everySteps: 100, directory: join(directory, "checkpoints") },
});
for await (const event of run.events()) {
  if (event.type === "run.prepared") console.log(`best reachable AUC ${event.bestAuc?.toFixed(3)}`);
  if (event.type === "run.evaluated") {
    console.log(`step ${event.step}: AUC ${event.metrics.auc.toFixed(3)}`);
  }
}
const { auc, normalizedEntropy, digest } = await run.result();
console.log(
  `AUC ${auc?.toFixed(3)}, normalized entropy ${normalizedEntropy?.toFixed(3)}, ${digest}`,
);

await using model = await loadModel(join(directory, "checkpoints"));
const [probability] = await model.predict([{ I1: 0.5, I2: -1, C1: 7, C2: 12 }]);
console.log(`P(click) = ${probability?.toFixed(3)}`);
rmSync(directory, { recursive: true });
