// Partial recovery, for bounded jobs with `checkpoint.partial`: the surviving state of a generation
// continues at its step, and only the rows of lost devices are restored from the last checkpoint.

import test from "ava";
import type { JobOptions } from "../../../index.ts";
import { openExistingStore } from "../../../storage/checkpoints/store/open-store.ts";
import { verifyCheckpoints } from "../../../storage/checkpoints/verify-checkpoints.ts";
import { inEpochs, only, runJob } from "../../helpers/clusters/clusters.ts";
import { calmRun, startCluster } from "../../helpers/clusters/either-clusters.ts";

const epochs = 3;
const steps = epochs * 43;

test.serial(
  "P4, bounded: only lost devices' rows are restored, and lost rows and samples are reported",
  async (t) => {
    const calm = await calmRun(epochs);
    await using place = await startCluster(1, { minDevices: 3 });
    place.threads.plan([{ actor: "device:0", generation: 1, step: 48, point: 3, effect: "exit" }]);
    const host = await place.join(2);
    const checkpoint: JobOptions["checkpoint"] = { everySteps: 30, keep: 100, partial: {} };
    const job = inEpochs(place.job({ mode: "bounded", checkpoint }), epochs);
    let seen = 0;
    const { result, events } = await runJob(place, job, (event) => {
      if (event.type === "run.checkpointed") seen = event.step;
      if (event.type !== "run.progress" || event.generation !== 2 || seen < 60) return;
      if (event.step > seen + 3 && event.step < seen + 22) host.kill();
    });
    const recoveries = only(events, "run.partial");
    t.like(recoveries, [
      { generation: 1, fromStep: 30, devices: [0] },
      { generation: 2, devices: [1, 2] },
    ]);
    const begun = only(events, "run.started").map(({ fromStep }) => fromStep);
    t.deepEqual(begun, [0, ...recoveries.map(({ step }) => step)]);
    for (const { step, fromStep, rows, samples, pls, devices } of recoveries) {
      t.true(step > fromStep && rows > 0);
      t.is(samples, (step - fromStep) * 64);
      t.is(pls, ((step - fromStep) / steps) * (devices.length / 3));
    }
    const sum = (name: "rows" | "samples" | "pls") =>
      recoveries.reduce((all, one) => all + one[name], 0);
    const lost = { recoveries: 2, rows: sum("rows"), samples: sum("samples"), pls: sum("pls") };
    t.deepEqual(result.lost, lost);
    const directory = job.checkpoint?.directory ?? "";
    const { manifests } = openExistingStore(directory).list();
    t.like(manifests[0]?.metrics, { lost });
    t.true(recoveries.every(({ step }) => manifests.some(({ cut }) => cut === step)));
    const { checkpoints, isIntact } = await verifyCheckpoints(directory);
    t.true(isIntact, `digests match the rows: ${JSON.stringify(checkpoints)}`);
    // The model is near the reference run's, but not equal.
    t.not(result.digest, calm.digest);
    const [own = 0, other = 0] = [result.logLoss, calm.logLoss];
    t.true(Math.abs(own / other - 1) < 0.02, `${own}, ${other}`);
    t.log(`log loss ${own}, undisturbed ${other}; PLS ${lost.pls}`);
  },
);
