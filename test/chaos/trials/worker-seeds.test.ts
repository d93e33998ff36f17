// Fault schedules drawn from seeds for runs with preprocessing workers: workers, their pool and the
// master may fail, too. `SEEDS=1-50 npx ava dist/test/chaos/trials/worker-seeds.test.js` runs other
// seeds.

import { sentenceOf } from "../../../chaos/faults/schedule.ts";
import { chaos, type JobOptions } from "../../../index.ts";
import { startDirectory } from "../../data/data-files.ts";
import { dataOfDays, modelOfDays, writeDays } from "../../helpers/clusters/days.ts";
import { testAll, testIf } from "../../helpers/needs.ts";

const [first = 1, last = first] = (process.env.SEEDS ?? "1-20").split("-").map(Number);

testIf(...(process.env.SEEDS === undefined ? [testAll] : [])).serial(
  "under the faults of each seed, a run with preprocessing workers equals its reference run",
  async (t) => {
    const cache = startDirectory(t);
    const job: JobOptions = {
      model: modelOfDays,
      data: dataOfDays(writeDays(t), { cache, streamed: true }),
      evaluation: { everySteps: 15, fraction: 0.2 },
      checkpoint: { everySteps: 10, directory: "unused" },
      preprocessing: { workersMin: 2, workersMax: 3 },
      stepDeadlineMs: 5000,
    };
    const reference = await chaos(job).reference();
    for (let seed = first; seed <= last; seed++) {
      const environment = seed % 5 < 3 ? { devices: 2, hosts: 0 } : { devices: 1, hosts: 2 };
      const trial = await chaos(job, environment).seed(seed).verify({ reference });
      for (const [i, fault] of trial.schedule.faults.entries()) {
        const { injected, whyNot } = trial.faults[i] ?? {};
        t.log(`${seed}: ${sentenceOf(fault)}${injected === true ? "" : `: ${whyNot}`}`);
      }
      t.is(trial.digest, trial.referenceDigest, `seed ${seed}`);
      const { samples, once } = trial.ledger[0] ?? {};
      t.is(once, samples);
    }
  },
);
