// Partial recovery: which jobs may use it, and its cost, by the formulas of CPR.

import test from "ava";
import { InvalidOptionError } from "../../../src/errors/errors.ts";
import { resolveJob } from "../../../src/job/job.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { purposes, RandomStream } from "../../../src/ports/random.ts";
import { commitPartial, stepsForPls } from "../../../storage/checkpoints/partial-checkpoint.ts";
import { openStore } from "../../../storage/checkpoints/store/open-store.ts";
import { survivingCut } from "../../../storage/checkpoints/surviving-cut.ts";
import { startDirectory } from "../../data/data-files.ts";
import { smallData, smallModel } from "../../helpers/clusters/clusters.ts";
import { testJob, writePart } from "../../helpers/stores/checkpoints.ts";

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

for (const [before, metrics] of [
  ["was the best", { isBest: true, evaluatedStep: 20 }],
  ["has no metrics, as an import", null],
] as const) {
  test(`the state after a partial recovery is not the best: the checkpoint before ${before}`, async (t) => {
    const directory = startDirectory(t);
    const job = resolveJob({ data: smallData, model: smallModel, mode: "bounded" });
    const store = openStore({ ...testJob, directory });
    const { generation } = store.beginGeneration();
    const write = (cut: number, name: string) =>
      writePart(store, { generation, cut, name }, Uint8Array.of(cut));
    const names = ["dense", ...job.model.tables.map((_, i) => `table-0000${i}`)];
    const parts = [write(20, "dense")];
    const about = { run: "r1", modelDigest: "d".repeat(64), arithmetic: "reference", position: {} };
    store.commit({ ...about, generation, cut: 20, parts, metrics, best: true, createdBy: "test" });
    const leaves = Array<string>(4).fill("0".repeat(64));
    const surviving = names.map((name) => ({ ...write(survivingCut(40, 24), name), leaves }));
    const recovered = await commitPartial({
      ...{ store, disk: realDisk, job, run: "r1", generation, steps: 40, devices: 1 },
      ...{ surviving: [{ step: 24, parts: surviving }], createdBy: "test" },
    });
    t.like(recovered?.manifest, { cut: 24, best: false, metrics: { isBest: false } });
  });
}
