// The loss option of a job: it is part of the identity, and the step uses it.

import { join } from "node:path";
import test from "ava";
import { InvalidOptionError } from "../../src/errors/errors.ts";
import { type JobOptions, jobIdentity, resolveJob } from "../../src/job/job.ts";
import { startDirectory } from "../data/data-files.ts";
import { smallData, smallModel } from "../helpers/clusters/clusters.ts";
import { startCluster } from "../helpers/clusters/either-clusters.ts";

type Loss = NonNullable<JobOptions["loss"]>;

const refused = [
  [{ kind: "hinge" }, '`loss.kind` to be one of "binaryCrossEntropy", "mse", got `hinge` (string)'],
  [{ positiveWeight: 0 }, "`loss.positiveWeight` to be a number > 0, got `0` (number)"],
  [{ labelSmoothing: 1 }, "`loss.labelSmoothing` to be a number < 1, got `1` (number)"],
] as const;

for (const [loss, message] of refused) {
  test(`an invalid loss is refused by its option: ${message}`, (t) => {
    const model = { kind: "dlrm", dense: 2, bottom: [4], top: [1] } as const;
    const data = { kind: "synthetic", samples: 100, batchSize: 10, dense: 2 } as const;
    const resolve = () =>
      resolveJob({ model, data, loss: { kind: "binaryCrossEntropy", ...loss } });
    t.is(t.throws(resolve, { instanceOf: InvalidOptionError }).message, `Expected ${message}`);
  });
}

test("the loss is part of the job's identity; left out, it is the default one", (t) => {
  const job = { model: smallModel, data: smallData };
  const identity = (loss?: Loss) => jobIdentity(resolveJob({ ...job, ...(loss && { loss }) }));
  const kind = "binaryCrossEntropy" as const;
  t.is(identity(), identity({ kind }));
  t.is(identity(), identity({ kind, positiveWeight: 1, labelSmoothing: 0 }));
  const all = [undefined, { kind, positiveWeight: 2 }, { kind, labelSmoothing: 0.1 }].map(identity);
  t.is(new Set(all).size, 3);
});

test.serial(
  "positive samples with more weight raise the predictions, on any number of devices",
  async (t) => {
    const loss: Loss = { kind: "binaryCrossEntropy", positiveWeight: 20, labelSmoothing: 0.05 };
    const results = [];
    await using place = await startCluster();
    for (const devices of [1, 2]) {
      const checkpoint = { directory: join(startDirectory(t), "checkpoints") };
      const job = place.job({ loss, devices, evaluation: { fraction: 0.2 }, checkpoint });
      results.push(await (await place.cluster.submit(job)).result());
    }
    const [one, two] = results;
    t.is(one?.digest, two?.digest);
    t.true((one?.calibration ?? 0) > 1.5, `a calibration of ${one?.calibration}`);
    // The weight raises the loss above that of the base rate, which is not reported as divergence.
    t.deepEqual(one?.warnings, []);
  },
);
