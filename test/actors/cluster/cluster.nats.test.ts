// The whole cluster over a real nats-server, if one is installed: a run outlives the server's
// death, and its digest equals that over the embedded broker.

import {
  calmResult,
  inEpochs,
  only,
  runJob,
  startTestCluster,
} from "../../helpers/clusters/clusters.ts";
import { startNatsServer } from "../../helpers/nats/nats.ts";
import { natsServer, testAll, testIf } from "../../helpers/needs.ts";

const epochs = 4;

testIf(testAll, natsServer).serial(
  "a run over a nats-server that is killed and started again has the same digest",
  async (t) => {
    const first = await startNatsServer();
    const port = new URL(first.url).port;
    await using place = await startTestCluster(2, { nats: first.url });
    let second: Awaited<ReturnType<typeof startNatsServer>> | undefined;
    t.teardown(() => second?.[Symbol.asyncDispose]());
    const job = place.job({ stepDeadlineMs: 30_000 }); // The usual deadline of jobs.
    const { result, events } = await runJob(place, inEpochs(job, epochs), async ({ type }) => {
      if (type !== "run.progress" || second !== undefined) return;
      await first.kill();
      second = await startNatsServer(["-p", port]);
    });
    t.truthy(second, "the server was killed while the run went on");
    t.is(result.digest, (await calmResult(epochs)).digest);
    t.is(only(events, "run.finished").length, 1);
  },
);
