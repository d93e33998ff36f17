// A nats-server that is unreachable for two step deadlines while its connections stay open: the job
// pauses, and continues. In `npm run test:all` for 60 s, at the default step deadline.

import {
  calmResult,
  inEpochs,
  only,
  runJob,
  startTestCluster,
} from "../../helpers/clusters/clusters.ts";
import { equalsCalm } from "../../helpers/clusters/either-clusters.ts";
import { startNatsServer } from "../../helpers/nats/nats.ts";
import { natsServer, testAll, testIf } from "../../helpers/needs.ts";
import { startHost } from "../../helpers/processes/host-processes.ts";
import { rounds } from "../../helpers/thinned.ts";

const epochs = 4;
const stepDeadlineMs = rounds("ms of a step deadline under a silent broker", 3000, 30_000);

testIf(testAll, natsServer).serial(
  "P10: if the broker is silent for two step deadlines, the job pauses and continues",
  async (t) => {
    await using server = await startNatsServer();
    await using place = await startTestCluster(1, { nats: server.url, minDevices: 2 });
    await startHost(t, place.cluster, { devices: 1 });
    let isSilent = false;
    let pausedAt = 0;
    const job = inEpochs(place.job({ stepDeadlineMs }), epochs);
    const { result, events } = await runJob(place, job, async (event) => {
      if (event.type !== "run.checkpointed" || event.step < 60 || isSilent) return;
      isSilent = true;
      pausedAt = event.step;
      server.signal("SIGSTOP");
      setTimeout(() => server.signal("SIGCONT"), 2 * stepDeadlineMs); // Events are followed.
    });
    await equalsCalm(t, result, calmResult(epochs));
    const incidents = only(events, "run.incident").map(({ error }) => error.code);
    t.log(`silent from step ${pausedAt}; incidents: ${incidents.join(", ") || "none"}`);
  },
);
