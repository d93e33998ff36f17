// A burst of small jobs, on a real nats-server if one is installed. The leader's process is killed
// three times: no job is lost, none is trained twice. A thousand jobs, in `npm run test:all` only.

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { ExecutionContext } from "ava";
import {
  type Client,
  connect,
  type JobOptions,
  type RunLine,
  startBroker,
} from "../../../internal.ts";
import { scheduleOf } from "../../../src/training/loop/schedule.ts";
import { sampleLedger, stretchesOf } from "../../../storage/checkpoints/sample-ledger.ts";
import { startDirectory } from "../../data/data-files.ts";
import { smallData, smallModel } from "../../helpers/clusters/clusters.ts";
import { startNatsServer } from "../../helpers/nats/nats.ts";
import { leavesOut, natsServer, testAll, testIf } from "../../helpers/needs.ts";
import { type Running, startCli } from "../../helpers/processes/start-cli.ts";
import { rounds } from "../../helpers/thinned.ts";

const jobs = rounds("jobs of a burst", 12, 1000);
const kills = 3;
const devices = 2;
const samples = 256;

/** A broker that outlives the process that accepts the jobs. */
async function startServer(t: ExecutionContext): Promise<{ url: string; token: string }> {
  const token = "t";
  const server = leavesOut(t, natsServer)
    ? await startBroker({ auth: { token } })
    : await startNatsServer(["--auth", token]);
  t.teardown(() => ("kill" in server ? server.kill() : server.close()));
  return { url: server.url, token };
}

testIf(testAll).serial(
  `a burst of ${jobs} jobs, the leader killed ${kills} times: all finish, each trained once`,
  async (t) => {
    t.timeout(14 * 60_000);
    const directory = startDirectory(t);
    const { url, token } = await startServer(t);
    const client = await connect({ nats: url, token });
    t.teardown(() => client[Symbol.asyncDispose]());
    const directoryOf = (at: number) => join(directory, `job-${at}`);
    const job = (at: number): JobOptions => ({
      name: `job-${at}`,
      model: smallModel,
      data: { ...smallData, samples, cache: join(directory, "cache") },
      checkpoint: { directory: directoryOf(at), everySteps: 2, keep: 9 },
      devices: 1,
      stepDeadlineMs: 5000,
    });

    let root: Running | undefined;
    const start = async () => {
      const place = ["--state", join(directory, "state"), "--nats", url, "--token", token];
      root = startCli(["up", "--devices", `${devices}`, ...place, "--json"], directory);
      await root.line((line) => line.includes('"report":"leading"'));
    };
    t.teardown(() => root?.kill("SIGKILL"));
    const killAndStart = async () => {
      root?.kill("SIGKILL");
      await root?.ended;
      await start();
    };
    await start();

    // The leader is killed while the jobs arrive, then twice while they run.
    const taken = new Map<number, string>();
    const submitting = Promise.all(
      Array.from({ length: jobs }, async (_, at) => {
        taken.set(at, await submitted(client, job(at), `key-${at}`));
      }),
    );
    while (taken.size < jobs / 4) await sleep(1);
    await killAndStart();
    await submitting;
    for (const share of [1 / 3, 2 / 3]) {
      await untilFinished(client, Math.floor(share * jobs));
      await killAndStart();
    }
    const runs = await untilFinished(client, jobs);

    t.is(runs.length, jobs);
    t.deepEqual(runs.map(({ run }) => run).sort(), [...taken.values()].sort());
    const schedule = scheduleOf({ samples, batchSize: smallData.batchSize, passes: 1 });
    const order = { seed: 1, shuffle: true };
    let generations = 0;
    const digests = new Set<string>();
    for (const [at, run] of taken) {
      const ledger = sampleLedger(stretchesOf(directoryOf(at)), schedule, order);
      t.deepEqual(ledger, [{ samples, once: samples, never: 0, twice: 0 }], `job ${at}`);
      const records = readdirSync(join(directoryOf(at), "generations"));
      generations += records.filter((name) => name.endsWith(".json")).length;
      if (at % 10 === 0) digests.add((await client.run(run).result()).digest);
    }
    t.is(digests.size, 1, "all runs have the same model");
    const again = generations - jobs;
    t.true(again <= kills * devices, `${again} generations more than jobs`);
    t.log(`${jobs} jobs, ${again} of them interrupted`);
  },
);

/** Submits a job until the submission is acknowledged. */
async function submitted(client: Client, job: JobOptions, key: string): Promise<string> {
  for (;;) {
    try {
      return (await client.submit(job, { key })).run;
    } catch (error) {
      if ((error as { code?: string }).code !== "REQUEST_FAILED") throw error;
    }
  }
}

/** Waits until `count` runs have finished; returns all runs. */
async function untilFinished(client: Client, count: number): Promise<RunLine[]> {
  for (;;) {
    const runs = await client.list();
    const finished = runs.filter(({ status }) => status === "finished");
    const ended = runs.find(({ status }) => status === "failed" || status === "cancelled");
    if (ended !== undefined) throw new Error(`${ended.run} is ${ended.status}`);
    if (finished.length >= count) return runs;
    await sleep(100);
  }
}
