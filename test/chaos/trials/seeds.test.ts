// Fault schedules drawn from seeds, on real processes. `SEEDS=1-50 npx ava
// dist/test/chaos/trials/seeds.test.js` runs other seeds; each schedule is printed, and `osiris
// chaos JOB --seed N` draws the same.

import { sentenceOf } from "../../../chaos/faults/schedule.ts";
import { chaos, type JobOptions, type ReferenceRun } from "../../../internal.ts";
import { smallData, smallModel } from "../../helpers/clusters/clusters.ts";
import { testAll, testIf } from "../../helpers/needs.ts";
import { isTestAll } from "../../helpers/thinned.ts";

const job: JobOptions = {
  model: smallModel,
  data: smallData,
  evaluation: { everySteps: 15 },
  checkpoint: { everySteps: 10, directory: "unused" },
  stepDeadlineMs: 5000,
};

const [first = 1, last = first] = (process.env.SEEDS ?? (isTestAll ? "1-20" : "2"))
  .split("-")
  .map(Number);
let reference: Promise<ReferenceRun> | undefined;

for (let seed = first; seed <= last; seed++) {
  // Two seeds of five run on hosts in separate processes.
  const environment = seed % 5 < 3 ? { devices: 2, hosts: 0 } : { devices: 1, hosts: 2 };
  testIf(testAll).serial(
    `P4, P5, P6: under the faults of seed ${seed}, a run equals its reference run, bit for bit`,
    async (t) => {
      reference ??= chaos(job).reference();
      const trial = await chaos(job, environment)
        .seed(seed)
        .verify({ reference: await reference });
      for (const [i, fault] of trial.schedule.faults.entries()) {
        const { injected, whyNot } = trial.faults[i] ?? {};
        t.log(`${sentenceOf(fault)}${injected === true ? "" : `: ${whyNot}`}`);
      }
      t.is(trial.digest, trial.referenceDigest);
      const { samples, once } = trial.ledger[0] ?? {};
      t.is(once, samples);
    },
  );
}
