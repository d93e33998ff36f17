// Timed steps: jobs train on threads of their own, one after another.

import { join } from "node:path";
import test from "ava";
import { quietest, timeSteps } from "../../../actors/calibration/time-steps.ts";
import { prepareData } from "../../../actors/threads/data/prepare-data.ts";
import { RemoteError } from "../../../src/errors/errors.ts";
import { resolveJob } from "../../../src/job/job.ts";
import { realClock } from "../../../src/ports/clock.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { type Launcher, workerLauncher } from "../../../src/ports/launcher.ts";
import { startDirectory } from "../../data/data-files.ts";

const ports = { launcher: workerLauncher, clock: realClock };
const counting = { warmUpMs: 20, warmUpSteps: 5, longestMs: 1000, sampleMs: 4, samples: 5 };

test("a probe's figure is the median of its fastest pass; unsampled values (0) are ignored", (t) => {
  const pass = (...readMs: number[]) =>
    readMs.map((ms) => ({ steps: 1, stepMs: 9, readMs: ms, batchesThere: 1, shares: {} as never }));
  const of = ({ readMs }: { readonly readMs: number }) => readMs;
  t.is(quietest([pass(9, 7, 8), pass(3, 5, 4), pass(2, 90, 91)], of), 4);
  t.is(quietest([pass(0, 0), pass(0, 6)], of), 6);
  t.is(quietest([pass(0), []], of), 0);
});

test.serial("a probe thread that fails rejects the measurement with its error", async (t) => {
  const directory = startDirectory(t);
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
  const directory = startDirectory(t);
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
