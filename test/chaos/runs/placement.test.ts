// A run continues on another number of devices. test/training/step trains on several numbers of
// devices.

import test from "ava";
import { runJob } from "../../helpers/clusters/clusters.ts";
import { calmRun, startCluster } from "../../helpers/clusters/either-clusters.ts";

test.serial("P7: a run on 3 devices may resume on another number of them", async (t) => {
  await using place = await startCluster(3);
  const job = place.job({ devices: 3 });
  const cancelled = await runJob(place, job, (event, run) =>
    event.type === "run.started" ? run.cancel() : undefined,
  );
  t.is(cancelled.result.status, "cancelled");
  const { result } = await runJob(place, { ...job, devices: 2 });
  t.is(result.digest, (await calmRun()).digest);
});
