// Preprocessing workers in separate processes: they find the runs of a cluster, and may be killed
// at any time; the model is the same as with readers that make the samples themselves.

import test from "ava";
import { DppWorker } from "../../../index.ts";
import { only, runJob, startTestCluster } from "../../helpers/clusters/clusters.ts";
import { jobOnDays, streamedOutcome, writeDays } from "../../helpers/clusters/days.ts";
import { testAll, testIf } from "../../helpers/needs.ts";
import { startCli } from "../../helpers/processes/start-cli.ts";

const preprocessing = { workersMin: 0, workersMax: 0 };

testIf(testAll).serial(
  "worker processes make the splits of a run while one is killed and one drained: same model",
  async (t) => {
    const home = writeDays(t);
    const calm = await streamedOutcome(1, home, { streamed: true });
    await using place = await startTestCluster(2);
    const { url, token = "", name } = place.cluster;
    const start = () => {
      const at = ["--nats", url, "--token", token, "--cluster", name, "--json"];
      const running = startCli(["dpp-worker", ...at], process.cwd());
      t.teardown(() => running.kill("SIGKILL"));
      return running;
    };
    const first = start();
    const second = start();
    const serving = (line: string) => line.includes('"state":"serving"');
    const job = jobOnDays(place, home, { streamed: true }, { preprocessing });
    const { result } = await runJob(place, job, async (event) => {
      if (event.type !== "run.checkpointed") return;
      if (event.step === 10) {
        await second.line(serving);
        first.kill("SIGKILL");
      }
      if (event.step === 30) place.threads.kill("device:1");
    });
    t.deepEqual({ digest: result.digest, history: result.history }, calm);
    await second.line((line) => line.includes('"state":"over"'));
    second.kill("SIGTERM");
    await second.ended;
  },
);

test.serial(
  "a run without any worker reports an incident, and continues once one joins",
  async (t) => {
    const home = writeDays(t);
    await using place = await startTestCluster(1);
    const { url, token, name } = place.cluster;
    const job = jobOnDays(place, home, { streamed: true }, { preprocessing, stepDeadlineMs: 4000 });
    const missing = /^Waited 3000 ms for split \w+ \d+ \d+ of a preprocessing worker/;
    let worker: Promise<DppWorker> | undefined;
    const { result, events } = await runJob(place, job, (event) => {
      // On a busy machine a device may reach its step deadline before the reader reports the
      // missing worker: the test ignores the incident of the device.
      if (event.type !== "run.incident" || !missing.test(event.error.message)) return;
      worker ??= DppWorker.join({ nats: url, cluster: name, token });
    });
    await (await worker)?.close();
    t.is(result.status, "finished");
    t.true(only(events, "run.incident").some(({ error }) => missing.test(error.message)));
  },
);
