// Step probes: whole steps are trained on real threads, and their times become constants.

import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "ava";
import { measureSteps, quietest } from "../../../actors/calibration/step-probes.ts";
import { timeSteps } from "../../../actors/calibration/time-steps.ts";
import { prepareData } from "../../../actors/threads/data/prepare-data.ts";
import { RemoteError } from "../../../src/errors/errors.ts";
import { resolveJob } from "../../../src/job/job.ts";
import { defaultConstants } from "../../../src/planner/cost/constants.ts";
import { realClock } from "../../../src/ports/clock.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { type Launcher, workerLauncher } from "../../../src/ports/launcher.ts";

const ports = { launcher: workerLauncher, clock: realClock };
const counting = { warmUpMs: 20, warmUpSteps: 5, longestMs: 1000, sampleMs: 4, samples: 5 };
const times = { compiling: { ...counting, samples: 0 }, counting, passes: 2 };
const speeds = { rowSpeed: 1, denseSpeed: 1.5 };
const probe = {
  ...{ tables: 2, dim: 8, idsPerBag: 1, batchSize: 16 },
  ...{ bottom: [8], top: [1], interaction: "cat" as const },
};
const leftovers = () =>
  readdirSync(tmpdir()).filter((name) => name.startsWith("osiris-calibrate-"));

test.serial("step probes yield costs for 1 and 2 devices, and leave no file", async (t) => {
  const done: number[] = [];
  const before = leftovers();
  const found = await measureSteps(
    defaultConstants,
    {
      devices: [1, 2].map((devices) => ({ devices, ...speeds })),
      ...{ arithmetic: "reference", times },
      probes: [probe, { ...probe, tables: 6 }],
      onProgress: (share) => void done.push(share),
    },
    ports,
  );
  t.deepEqual(
    found.map(({ devices }) => devices),
    [1, 2],
  );
  for (const { denseSpeed } of found) t.is(denseSpeed, 1.5);
  for (const { step, shard, readBatch, readSample, readBag, readId } of found) {
    t.true(step + shard > 1e-6 && step + shard < 1, `${step} and ${shard}`);
    t.true(readBatch + readSample + readBag + readId > 0);
  }
  t.deepEqual(
    done.map((share) => Math.round(6 * share)),
    [1, 2, 3, 4, 5, 6],
  );
  t.deepEqual(leftovers(), before);
});

test("a probe's figure is the median of its fastest pass; unsampled values (0) are ignored", (t) => {
  const pass = (...readMs: number[]) =>
    readMs.map((ms) => ({ steps: 1, stepMs: 9, readMs: ms, batchesThere: 1, shares: {} as never }));
  const of = ({ readMs }: { readonly readMs: number }) => readMs;
  t.is(quietest([pass(9, 7, 8), pass(3, 5, 4), pass(2, 90, 91)], of), 4);
  t.is(quietest([pass(0, 0), pass(0, 6)], of), 6);
  t.is(quietest([pass(0), []], of), 0);
});

test.serial("a probe thread that fails rejects the measurement with its error", async (t) => {
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
  const error = await t.throwsAsync(timeSteps([{ job, data, times: counting }], 1, ports), {
    instanceOf: RemoteError,
  });
  t.regex(error?.message ?? "", /none\.cache/);
});

test.serial("consecutive probe generations train on the same threads", async (t) => {
  const directory = mkdtempSync(join(tmpdir(), "osiris-test-"));
  t.teardown(() => rmSync(directory, { recursive: true }));
  const started: string[] = [];
  const launcher: Launcher = {
    start(entry, task, name) {
      started.push(name);
      return workerLauncher.start(entry, task, name);
    },
  };
  const jobs = [];
  for (const batchSize of [16, 32, 16]) {
    const job = resolveJob({
      model: { kind: "dlrm", tables: [{ name: "T", rows: 10, dim: 8 }], top: [1] },
      data: { kind: "synthetic", samples: 64, dense: 0, batchSize, epochs: 1e5, cache: directory },
      ...{ arithmetic: "reference", checkpoint: { directory } },
    });
    jobs.push({ job, data: await prepareData(job, realDisk, () => {}), times: counting });
  }
  const done: number[] = [];
  const samples = await timeSteps(
    jobs,
    2,
    { ...ports, launcher },
    (count) => void done.push(count),
  );
  t.deepEqual(started.sort(), ["calibrate-device-0", "calibrate-device-1", "calibrate-reader-0"]);
  t.deepEqual(done, [1, 2, 3]);
  t.is(samples.length, 3);
  for (const own of samples) {
    t.true(own.length >= 1);
    for (const { steps, stepMs } of own) t.true(steps > 0 && stepMs > 0);
  }
});
