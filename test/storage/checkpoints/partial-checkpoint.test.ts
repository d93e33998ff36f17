// Partial recovery: which jobs may use it, and its cost, by the formulas of CPR.

import test from "ava";
import { InvalidOptionError } from "../../../src/errors/errors.ts";
import { resolveJob } from "../../../src/job/job.ts";
import { purposes, RandomStream } from "../../../src/ports/random.ts";
import { stepsForPls } from "../../../storage/checkpoints/partial-checkpoint.ts";
import { smallData, smallModel } from "../../helpers/clusters/clusters.ts";

test("partial recovery is for bounded jobs with tables in memory only", (t) => {
  const partial = { pls: 0.1, failureSteps: 1000 };
  const jobWith = (mode: string, given: object = partial, table: object = {}) => ({
    data: smallData,
    mode,
    checkpoint: { partial: given },
    model: { ...smallModel, tables: [{ name: "a", rows: 20, dim: 8, ...table }] },
  });
  const refusal = (given: object) =>
    t.throws(() => resolveJob(given), { instanceOf: InvalidOptionError })?.message ?? "";
  t.regex(refusal(jobWith("exact")), /partial` to be left out in an exact job, .*"bounded"/);
  t.regex(refusal(jobWith("bounded", partial, { tier: "cached" })), /left out where a table \(a\)/);
  t.regex(refusal(jobWith("bounded", { pls: 0.1 })), /`pls` and `failureSteps`, or neither/);
  t.deepEqual(resolveJob(jobWith("bounded")).checkpoint.partial, partial);
});

test("random failures lose the portion of samples (PLS) that the interval was chosen for", (t) => {
  const random = new RandomStream(5, purposes.faults, 0);
  const steps = 200_000;
  for (const [devices, failureSteps, pls] of [
    [4, 1000, 0.05],
    [8, 500, 0.01],
    [2, 2000, 0.2],
  ] as const) {
    const interval = stepsForPls(pls, devices, failureSteps);
    t.is(interval, 2 * pls * devices * failureSteps);
    let lost = 0;
    const runs = 20;
    for (let run = 0; run < runs; run++) {
      const next = (at: number) => at - failureSteps * Math.log(1 - random.uniform());
      for (let at = next(0); at < steps; at = next(at)) lost += (at % interval) / (steps * devices);
    }
    const mean = lost / runs;
    t.true(Math.abs(mean / pls - 1) < 0.05, `${mean}, wanted ${pls}`);
  }
});
