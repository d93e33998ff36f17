// Models that real PyTorch trained and saved (test/fixtures/pytorch) compute the same logits after
// an import, and continue to train as in PyTorch.
//
// Tolerance: PyTorch adds up products in blocks, this project in order, and logits are derived from
// probabilities in float32, so they are held to 1e-6.

import { join } from "node:path";
import test from "ava";
import type { JobOptions } from "../../../../src/job/job.ts";
import { openKernels } from "../../../../src/kernels/index.ts";
import { listCheckpoints } from "../../../../storage/checkpoints/list-checkpoints.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { runJob } from "../../../../test/helpers/clusters/clusters.ts";
import { startCluster } from "../../../../test/helpers/clusters/either-clusters.ts";
import {
  apart,
  expectedOfPyTorch,
  logitsOf,
  pytorchFile,
} from "../../../../test/helpers/models/pytorch.ts";
import { importModel } from "../../imports/import-model.ts";

const tolerance = 1e-6;
const { models } = expectedOfPyTorch();

test("a model of PyTorch gives PyTorch's logits, with a job derived from its shapes", async (t) => {
  const home = startDirectory(t);
  for (const [name, { logits }] of Object.entries(models)) {
    const out = join(home, name);
    const report = await importModel(pytorchFile(name), { out });
    const own = await logitsOf(out);
    t.true(apart(own, logits) < tolerance, `${name}: ${apart(own, logits)}`);
    t.true(Math.max(...logits) - Math.min(...logits) > 0.1);
    t.deepEqual(listCheckpoints(out).checkpoints[0]?.sets, [openKernels("auto").set]);
    t.like(report, { format: "PyTorch", jobFrom: "shapes", types: ["float32"], notFinite: 0 });
  }
});

/** The job of a fixture, on the data that PyTorch then trained the model on. */
function continuedJob(home: string, name: string, made: JobOptions): JobOptions {
  const isTorchRec = name.startsWith("torchrec");
  const columns = [0, 1, 2].map((i) => (isTorchRec ? `t_cat_${i}` : `emb_${i}`));
  const optimizers: Record<string, JobOptions["optimizer"]> = {
    "dlrm-rowwise.pt": {
      dense: { kind: "adagrad", learningRate: 0.05, epsilon: 1e-3 },
      sparse: { kind: "rowWiseAdagrad", learningRate: 0.05, epsilon: 1e-3 },
    },
    "torchrec.pt": {
      dense: { kind: "adam", learningRate: 0.01, epsilon: 1e-3 },
      sparse: { kind: "adam", learningRate: 0.01, epsilon: 1e-3 },
    },
  };
  return {
    model: made.model,
    data: {
      kind: "csv",
      paths: [pytorchFile("continued.csv")],
      label: "label",
      dense: [0, 1, 2, 3, 4].map((i) => `dense_${i}`),
      categorical: columns.map((column) => ({ column, ids: "integer", separator: "|" })),
      batchSize: 16,
      shuffle: false,
      cache: join(home, "cache"),
    },
    optimizer: optimizers[name] ?? {},
    checkpoint: { directory: join(home, `${name}-trained`) },
  };
}

test.serial("training continues as in PyTorch, with the imported optimizer state", async (t) => {
  const home = startDirectory(t);
  await using place = await startCluster();
  for (const name of ["dlrm-rowwise.pt", "torchrec.pt"]) {
    const { continued = [] } = models[name] ?? {};
    const { job: made } = await importModel(pytorchFile(name), { out: join(home, `${name}-1`) });
    const job = continuedJob(home, name, made);
    const out = join(home, `${name}-2`);
    const { optimizer, cut } = await importModel(pytorchFile(name), { out, job });
    const state = "imported";
    t.deepEqual(optimizer, { dense: { state }, sparse: { state } }, name);
    t.is(cut, 6, name);
    const { result } = await runJob(place, { ...job, warmStart: { from: out } });
    t.is(result.step, 12);
    const own = await logitsOf(join(home, `${name}-trained`));
    t.true(apart(own, continued) < 5e-6, `${name}: ${apart(own, continued)}`);
  }
  // With fresh optimizer state, training reaches other weights.
  const name = "dlrm-rowwise.pt";
  const out = join(home, "fresh");
  const job = continuedJob(home, name, (await importModel(pytorchFile(name), { out })).job);
  const own = { ...job, checkpoint: { directory: join(home, "other") } };
  const fresh = await importModel(pytorchFile(name), {
    ...{ out: join(home, "fresh-2"), job: own, isFresh: true },
  });
  t.is(fresh.cut, 0);
  t.is(fresh.optimizer.dense.state, "fresh");
  await runJob(place, { ...own, warmStart: { from: join(home, "fresh-2") } });
  const other = apart(await logitsOf(join(home, "other")), models[name]?.continued ?? []);
  t.true(other > 1e-3, `${other}`);
});
