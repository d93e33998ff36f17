// The baseline of the Criteo example reaches its optimum, and finds the signal in the data.

import { join } from "node:path";
import test from "ava";
import { fitLogistic } from "../../examples/logistic-regression.ts";
import { openCache } from "../../src/data/cache/cache-reader.ts";
import type { Dataset } from "../../src/data/dataset.ts";
import { splitDataset } from "../../src/data/split.ts";
import { oneLabel } from "../../src/data/targets.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { evaluate } from "../../src/training/loop/metrics.ts";
import { prepare, startDirectory } from "../data/data-files.ts";

/** A dataset in memory with one categorical feature and no dense one. */
function datasetOf(ids: readonly number[], labels: readonly number[]): Dataset {
  return {
    samples: ids.length,
    dense: 0,
    features: 1,
    wide: [],
    weighted: [],
    idsMax: [1],
    targets: oneLabel,
    read(_, batch) {
      batch.labels.set(labels);
      batch.lengths.fill(1);
      batch.ids.set(ids);
      return ids.length;
    },
    hold: async () => {},
    bytesRead: { file: 0, samples: 0 },
    close: () => {},
  };
}

test("without a penalty, logistic regression predicts each id's share of positives", (t) => {
  const dataset = datasetOf([0, 0, 0, 0, 1, 1, 1, 1, 1, 1], [1, 0, 0, 0, 1, 1, 1, 1, 1, 0]);
  const model = fitLogistic(dataset, [{ name: "a", rows: 2 }], 0);
  const [logits] = model.score(dataset);
  const [first = 0, , , , second = 0] = logits;
  t.true(Math.abs(1 / (1 + Math.exp(-first)) - 1 / 4) < 1e-4);
  t.true(Math.abs(1 / (1 + Math.exp(-second)) - 5 / 6) < 1e-4);
});

test("with a large penalty, logistic regression predicts the base rate", (t) => {
  const dataset = datasetOf([0, 0, 0, 0, 1, 1, 1, 1, 1, 1], [1, 0, 0, 0, 1, 1, 1, 1, 1, 0]);
  const [logits] = fitLogistic(dataset, [{ name: "a", rows: 2 }], 1e4).score(dataset);
  for (const logit of logits) t.true(Math.abs(1 / (1 + Math.exp(-logit)) - 0.6) < 1e-3);
});

test("logistic regression converges on many features, and ranks unseen samples", async (t) => {
  const tables = Array.from({ length: 4 }, (_, i) => ({ name: `a${i}`, rows: 30 }));
  const cache = join(startDirectory(t), "cache");
  const report = await prepare(
    { kind: "synthetic", samples: 3000, dense: 5, batchSize: 1, cache },
    tables,
  );
  const partOf = (part: "train" | "heldOut") =>
    splitDataset(openCache(report.path, realDisk), { seed: 1, fraction: 0.2, part });
  const [train, heldOut] = [partOf("train"), partOf("heldOut")];
  t.teardown(() => {
    train.close();
    heldOut.close();
  });
  const model = fitLogistic(train, tables, 0.003);
  t.true(model.gradientMax < 1e-5, `gradient ${model.gradientMax}`);
  const { auc } = evaluate(...model.score(heldOut));
  t.true(auc > 0.65, `AUC ${auc}, best ${report.bestAuc}`);
});
