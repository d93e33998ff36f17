// The lease and the queue in JetStream, with a real nats-server: first the server is killed and
// restarts empty, then the leader is killed and its machine lost with its disk.

import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { type Client, Cluster, type JobOptions, startBroker } from "../../../internal.ts";
import { startDirectory } from "../../data/data-files.ts";
import { inEpochs, only } from "../../helpers/clusters/clusters.ts";
import { calmRun, equalsCalm } from "../../helpers/clusters/either-clusters.ts";
import { startNatsServer } from "../../helpers/nats/nats.ts";
import { natsServer, testIf } from "../../helpers/needs.ts";
import { startLeaderPlace } from "../../helpers/processes/leader-processes.ts";

const epochs = 6;

test.serial("a lease in NATS needs a server with JetStream", async (t) => {
  const broker = await startBroker({ auth: { token: "t" } }); // Without JetStream.
  t.teardown(() => broker.close());
  const lease = { directory: "nats" };
  const start = () => Cluster.start({ nats: broker.url, token: "t", lease });
  const error = await t.throwsAsync(start, { code: "INPUT_UNUSABLE" });
  t.regex(error?.message ?? "", /The server .* has no JetStream: start it with `-js`/);
});

testIf(natsServer).serial(
  "P9, P10: the nats-server forgets the lease, then the leader's machine is lost: a new one leads",
  async (t) => {
    const directory = startDirectory(t);
    let servers = 0;
    const start = (...flags: string[]) =>
      startNatsServer(["-js", "-sd", join(directory, `${servers++}`), ...flags]);
    let server = await start();
    t.teardown(() => server.kill());
    const { url } = server;
    const place = await startLeaderPlace(t, { url, lease: "nats" });
    const root = await place.start();
    await root.line((line) => line.includes('"report":"leading"'));
    const standby = await place.start();
    const data = { cache: join(root.home, "cache") } as object as JobOptions["data"];
    const job = inEpochs(place.job({ stepDeadlineMs: 120_000, data }), epochs);
    const run = await submitted(place.client, job);
    const at = { restartedMs: 0, killedMs: 0, takenMs: 0 };
    const events = [];
    for await (const event of run.events()) {
      events.push(event);
      if (event.type === "run.incident") at.takenMs ||= performance.now();
      if (event.type !== "run.checkpointed") continue;
      if (event.step >= 40 && at.restartedMs === 0) {
        at.restartedMs = performance.now();
        await server.kill();
        server = await start("-p", new URL(url).port);
      } else if (event.step >= 220 && at.killedMs === 0) {
        at.killedMs = performance.now();
        root.kill("SIGKILL");
        await root.ended;
        rmSync(root.home, { recursive: true });
      }
    }
    const result = await run.result();
    await equalsCalm(t, result, calmRun(epochs));
    const codes = only(events, "run.incident").map(({ error }) => error.code);
    t.deepEqual(codes, ["LEADER_REPLACED"]);
    const numbers = events.map(({ seq }) => seq);
    t.deepEqual(numbers, [...numbers.keys()], "event numbers continue without a gap");
    const again = await submitted(place.client, job);
    t.is(again.run, run.run, "the next leader knows the key of the finished run");
    const other = await place.client.submit(inEpochs(place.job({ data }), 1));
    t.not(other.run, run.run);
    await other.result();
    t.deepEqual(
      (await place.client.list()).map((line) => line.run),
      [run.run, other.run],
    );
    t.deepEqual(readdirSync(standby.home), [], "a leader with this lease writes no file");
    t.log(`taken over after ${((at.takenMs - at.killedMs) / 1000).toFixed(1)} s`);
  },
);

/** Submits a job until it is accepted: on a busy machine a leader may just be losing its lease. */
async function submitted(client: Client, job: JobOptions) {
  for (;;) {
    try {
      return await client.submit(job, { key: "the job" });
    } catch (error) {
      if ((error as { code?: string }).code !== "REQUEST_FAILED") throw error;
    }
  }
}
