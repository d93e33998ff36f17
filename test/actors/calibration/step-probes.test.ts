// Step probes: whole steps are trained on real threads, and what they take becomes constants.

import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "ava";
import { measureSteps, timeSteps } from "../../../actors/calibration/step-probes.ts";
import { RemoteError } from "../../../src/errors/errors.ts";
import { resolveJob } from "../../../src/job/job.ts";
import { defaultConstants } from "../../../src/planner/cost/constants.ts";
import { realClock } from "../../../src/ports/clock.ts";
import { workerLauncher } from "../../../src/ports/launcher.ts";

const ports = { launcher: workerLauncher, clock: realClock };
const times = { warmUpMs: 20, warmUpSteps: 5, longestMs: 1000, sampleMs: 4, samples: 5 };
const probe = {
  ...{ tables: 2, dim: 8, idsPerBag: 1, batchSize: 16 },
  ...{ bottom: [8], top: [1], interaction: "cat" as const },
};
const leftovers = () =>
  readdirSync(tmpdir()).filter((name) => name.startsWith("osiris-calibrate-"));

test.serial("steps on one device and on two become costs of each, and no file stays", async (t) => {
  const done: number[] = [];
  const before = leftovers();
  const found = await measureSteps(
    defaultConstants,
    {
      ...{ devices: [1, 2], arithmetic: "reference", times },
      probes: [probe, { ...probe, tables: 6 }],
      onProgress: (share) => void done.push(share),
    },
    ports,
  );
  t.deepEqual(
    found.map(({ devices }) => devices),
    [1, 2],
  );
  for (const { step, shard, readBatch, readSample, readBag, readId } of found) {
    t.true(step + shard > 1e-6 && step + shard < 1, `${step} and ${shard}`);
    t.true(readBatch + readSample + readBag + readId > 0);
  }
  t.deepEqual(done, [0.5, 1]);
  t.deepEqual(leftovers(), before);
});

test.serial("a thread that fails says why", async (t) => {
  const directory = mkdtempSync(join(tmpdir(), "osiris-test-"));
  t.teardown(() => rmSync(directory, { recursive: true }));
  const job = resolveJob({
    model: { kind: "dlrm", tables: [{ name: "T", rows: 10, dim: 8 }], top: [1] },
    data: { kind: "synthetic", samples: 64, dense: 0, batchSize: 16 },
    ...{ arithmetic: "reference", checkpoint: { directory } },
  });
  const data = {
    training: { path: join(directory, "none.cache"), samples: 64 },
    contents: { training: { samples: 64, digest: "", version: 1, files: [] } },
    ...{ idsMax: [1], quarantined: 0, quarantine: [], warnings: [], remade: [] },
  };
  const error = await t.throwsAsync(timeSteps(job, 1, data, ports, times), {
    instanceOf: RemoteError,
  });
  t.regex(error?.message ?? "", /none\.cache/);
});
