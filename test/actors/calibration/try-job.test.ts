// A trial trains some steps of a job and scales the constants so that they predict those steps.

import { join } from "node:path";
import test from "ava";
import { tryJob } from "../../../actors/calibration/try-job.ts";
import { prepareData } from "../../../actors/threads/data/prepare-data.ts";
import { type JobOptions, resolveJob } from "../../../src/job/job.ts";
import { areKnown, serverConstants } from "../../../src/planner/cost/constants.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { planJob } from "../../../src/training/planning/plan-job.ts";
import { startDirectory } from "../../data/data-files.ts";

const times = { warmUpMs: 1, warmUpSteps: 2, longestMs: 100, sampleMs: 2, samples: 3 };

test("a trial scales all constants by one factor: the prediction changes, the plan does not", async (t) => {
  const directory = startDirectory(t);
  const options: JobOptions = {
    model: {
      ...{ kind: "dlrm", dense: 4, bottom: [8], top: [1] },
      tables: [100, 1000, 50].map((rows, i) => ({ name: `T${i}`, rows, dim: 8 })),
    },
    data: { kind: "synthetic", samples: 4096, dense: 4, batchSize: 64, cache: directory },
    checkpoint: { directory: join(directory, "none") },
    arithmetic: "reference",
  };
  const tried = await tryJob(options, { devices: 2, constants: serverConstants, times });
  t.regex(tried.source, /, by a trial of the job$/);
  t.deepEqual([areKnown(serverConstants), areKnown(tried)], [false, true]);
  const job = resolveJob(options);
  const { statistics } = await prepareData(job, realDisk, () => {});
  const [before, after] = [serverConstants, tried].map((constants) =>
    planJob(job, { devices: { hosts: 1, perHost: 2 }, constants, statistics }),
  );
  if (!before?.isFeasible || !after?.isFeasible) return t.fail("a small job fits any device");
  t.is(after.text, before.text);
  const factor = after.assessment.step / before.assessment.step;
  t.true(Math.abs((factor * tried.denseFlops) / serverConstants.denseFlops - 1) < 1e-9);
  t.true(after.assessment.step > 1e-6 && after.assessment.step < 300, `${after.assessment.step}`);
});
