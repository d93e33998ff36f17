// A checkpoint that commit a5f5553 wrote, before the rooms moved and the words changed: each of its
// four cuts reads back with the digest recorded then, and training goes on from the last cut to the
// model that the same commit trained without a stop. The job has all that a format can get wrong:
// row blocks, float16 rows, dynamic ids, dropout, increments on a baseline, an evaluation.
// Reference arithmetic makes the bits the same on any machine.

import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import type { JobOptions } from "../../../src/job/job.ts";
import { verifyCheckpoints } from "../../../storage/checkpoints/verify-checkpoints.ts";
import { startCluster } from "../../helpers/clusters/either-clusters.ts";
import { testAll, testIf } from "../../helpers/needs.ts";

/** The digest of the whole run, as commit a5f5553 trained it: 72 steps, two epochs. */
const wholeDigest = "sha256:98d0f6c20bcb650453f66b87c3a8785303ed5ee87fa3dc1d1e8dfde7fc3a993e";

/** The digest of each cut, as commit a5f5553 recorded it; the newest first. */
const cutDigests = [
  [36, "sha256:37c2eaacf2d55d03bf9bcc21407dc71d2703e7d4ce040ad074429928f3c3d36d"],
  [27, "sha256:14596d8ed6f9cfee642e238faa214f8cf13a8815aa21b525378165d7eb577a08"],
  [18, "sha256:797be4b41e1f47f9b1255388a5b5ca2754e3977b79c0100389c270bc48a6e866"],
  [9, "sha256:c027e8f36640debc7c00e4c74d2ecd16bd9900d56e72413f8b094003edc64738"],
] as const;

/** The job as it was written then: `passes` is the old spelling of `epochs`. */
function jobIn(directory: string): JobOptions {
  return {
    name: "before-rooms",
    model: {
      kind: "dlrm",
      dense: 4,
      tables: [
        { name: "user", rows: 96, dim: 8, rowBlocks: 2 },
        { name: "item", rows: 64, dim: 8, precision: "float16", pooling: "mean" },
        { name: "ad", rows: 48, dim: 8, idBits: 64, dynamic: { everySteps: 7 } },
      ],
      bottom: [8],
      top: [8, 1],
      dropout: 0.1,
    },
    data: {
      kind: "synthetic",
      samples: 2560,
      batchSize: 64,
      dense: 4,
      zipf: 1.2,
      idsPerBag: { min: 0, max: 3 },
      cache: join(directory, "cache"),
      passes: 2,
    },
    optimizer: {
      dense: { kind: "adam", learningRate: 2e-3 },
      sparse: { kind: "rowWiseAdagrad", learningRate: 0.05 },
    },
    evaluation: { fraction: 0.1, everySteps: 18 },
    checkpoint: {
      everySteps: 9,
      directory: join(directory, "checkpoints"),
      differential: "consecutive",
      keep: 2,
    },
    seed: 17,
    slices: 8,
    arithmetic: "reference",
  };
}

/** A copy of the old checkpoint directory, in a directory that is removed after the test. */
function copyOf(t: ExecutionContext): string {
  const directory = mkdtempSync(join(tmpdir(), "osiris-before-"));
  t.teardown(() => rmSync(directory, { recursive: true }));
  const fixture = "test/storage/checkpoints/before-rooms";
  cpSync(fixture, join(directory, "checkpoints"), { recursive: true });
  return directory;
}

test("a checkpoint of before the rooms moved reads back with the digests promised then", async (t) => {
  const directory = join(copyOf(t), "checkpoints");
  const { checkpoints } = await verifyCheckpoints(directory);
  t.deepEqual(
    checkpoints.map(({ cut, digest, reason }) => ({ cut, digest, reason })),
    cutDigests.map(([cut, digest]) => ({ cut, digest, reason: undefined })),
  );
});

test.serial("a run goes on from it to the model trained then", async (t) => {
  await using place = await startCluster();
  const run = await place.cluster.submit(jobIn(copyOf(t)));
  const from: number[] = [];
  for await (const event of run.events()) {
    if (event.type === "run.started") from.push(event.fromStep);
  }
  const { step, digest } = await run.result();
  t.deepEqual({ from, step, digest }, { from: [36], step: 72, digest: wholeDigest });
});

// Its second half has the same code, and is above.
testIf(testAll).serial(
  "a run of the same job trains from the beginning to the model trained then",
  async (t) => {
    const directory = mkdtempSync(join(tmpdir(), "osiris-before-"));
    t.teardown(() => rmSync(directory, { recursive: true }));
    await using place = await startCluster();
    const whole = await place.cluster.submit({ ...jobIn(directory), devices: 1 });
    t.is((await whole.result()).digest, wholeDigest);
  },
);
