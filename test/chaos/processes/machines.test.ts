// Runs on machines that share nothing but a network with a broker and a bucket
// (test/helpers/machines): the model is that of one process, whatever is cut, lost or replaced.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ExecutionContext } from "ava";
import type { Cable } from "../../../bench/machines/machines.ts";
import type { JobOptions, RunEvent } from "../../../index.ts";
import { only, runJob, startTestCluster } from "../../helpers/clusters/clusters.ts";
import { clickFile } from "../../helpers/machines/click-files.ts";
import { type Machine, startNetwork } from "../../helpers/machines/machines.ts";
import { natsServer, python3, separateMachines, testAll, testIf } from "../../helpers/needs.ts";
import type { Running } from "../../helpers/processes/start-cli.ts";
import { bucketEnvironment } from "../../objects/bucket-server.ts";
import { sharedResult } from "../../runner/shared-results.ts";

const bucketProgram = new URL("../../helpers/machines/bucket-program.js", import.meta.url).pathname;
const [files, rows] = [4, 1024];

/** A job whose files lie below an address or a directory. Some tables lie in durable tiers. */
function jobAt(place: string, directory: string, epochs: number): JobOptions {
  const paths = Array.from({ length: files }, (_, file) => `${place}/part-${file}.parquet`);
  const table = (name: string, more: object = {}) => ({ name, rows: 200, dim: 8, ...more });
  const columns = { label: "label", dense: ["price"], categorical: ["user", "item"] };
  return {
    model: {
      ...{ kind: "dlrm", dense: 1, bottom: [8, 8], top: [8, 1] },
      tables: [table("user"), table("item", { tier: "cached", keep: "durable" })],
    },
    data: { ...{ kind: "parquet", paths, batchSize: 64, epochs, cache: "none" }, ...columns },
    tiers: { hbmBytes: 1, ddrBytes: 1 },
    evaluation: { everySteps: 100, split: { kind: "order" } },
    checkpoint: { everySteps: 40, directory },
    sharding: "as-written",
    stepDeadlineMs: 8000,
    restarts: { restartsMax: 100, windowMs: 1 },
  } as JobOptions;
}

/** The digest of the job in this process, from files on its disk. */
function alone(epochs: number): Promise<string> {
  return sharedResult(`machines-${epochs}`, async () => {
    const home = mkdtempSync(join(tmpdir(), "osiris-machines-"));
    for (let file = 0; file < files; file++) {
      writeFileSync(join(home, `part-${file}.parquet`), clickFile(file, rows));
    }
    await using cluster = await startTestCluster(2);
    const job = jobAt(home, join(home, "run"), epochs);
    const data = { ...job.data, cache: join(home, "cache"), streamed: true } as JobOptions["data"];
    const { result } = await runJob(cluster, { ...job, data });
    rmSync(home, { recursive: true, force: true });
    return result.digest;
  });
}

/**
 * A network with one machine for the bucket, one for the broker, and one for each root and host.
 */
async function startPlace(t: ExecutionContext, minDevices: number, cable?: Cable) {
  const network = await startNetwork(t, cable);
  const bucketAt = "10.99.0.1"; // The first machine.
  const environment = bucketEnvironment(`http://${bucketAt}:9000`);
  const start = () => network.machine(environment);
  const [store, broker] = [await start(), await start()];
  const served = store.node(bucketProgram, bucketAt, `${files}`, `${rows}`);
  broker.shell("nats-server -a 0.0.0.0 -p 4222 > nats.log 2>&1 &");
  await served.line((line) => line.includes("9000"));
  const nats = ["--nats", `nats://${broker.address}:4222`];
  const least = ["--devices", "0", "--min-devices", `${minDevices}`];
  return {
    store,
    /** Starts a root, which leads or stands by; all roots have the same lease in the bucket. */
    async root(isStandby = false) {
      const machine = await start();
      const lease = ["--lease", "s3://bucket/lead"];
      const up = machine.osiris("up", ...nats, ...least, ...lease, "--json");
      if (!isStandby) await up.line((line) => line.includes('"up"'));
      return machine;
    },
    async host() {
      const machine = await start();
      const host = machine.osiris("host", ...nats, "--devices", "2", "--json");
      await host.line((line) => line.includes('"report":"host"'));
      return machine;
    },
    /**
     * Submits the job, and follows its run from the store's machine. Readers are limited to
     * `samplesPerSecond`, so that the run lasts while machines are lost and started.
     */
    async submit(epochs: number, samplesPerSecond: number): Promise<Running> {
      const job = jobAt("s3://bucket/clicks", "s3://bucket/run", epochs);
      store.write("job.json", JSON.stringify(job));
      const running = store.osiris("submit", "job.json", ...nats, "--follow", "--json");
      const { run } = JSON.parse(await running.line(isOf("run.queued"))) as { run: string };
      await store.osiris("reader", "rate", run, `${samplesPerSecond}`, ...nats).ended;
      return running;
    },
  };
}

/** Accepts the lines of events of a type; of any run: a busy machine may have lost a host. */
function isOf(type: RunEvent["type"]): (line: string) => boolean {
  return (line) => line.startsWith(`{"type":"${type}"`);
}

/** The events of a run that `osiris submit --follow --json` shows, and the digest of its model. */
async function endOf(running: Running) {
  const { code, stdout, stderr } = await running.ended;
  if (code !== 0) throw new Error(stdout + stderr);
  const lines = stdout.trimEnd().split("\n");
  const { digest } = JSON.parse(lines.at(-1) ?? "") as { digest: string };
  const events = lines.filter((line) => line.startsWith('{"type"'));
  return { digest, events: events.map((line) => JSON.parse(line) as RunEvent) };
}

/** Hosts of each generation. */
const hostsOf = (events: readonly RunEvent[]) =>
  only(events, "run.started").map(({ hosts }) => hosts.map(({ host }) => host));

/** The bytes that the store has sent to a machine of the objects below a prefix. */
function gotBy(store: Machine, machine: Machine, prefix: string): number {
  const ask = "fetch('http://127.0.0.1/').then((r) => r.text()).then((s) => console.log(s))";
  const sent = JSON.parse(store.shell(`${process.execPath} -e "${ask}"`)) as Sent;
  const keys = Object.entries(sent[machine.address] ?? {});
  return keys.reduce((sum, [key, bytes]) => sum + (key.startsWith(prefix) ? bytes : 0), 0);
}

type Sent = Readonly<Record<string, Readonly<Record<string, number>>>>;

/**
 * Asserts that a host's cache saves requests: over all epochs the host fetched less than twice the
 * files. The first read of a file fetches its last 64 KiB, all of a small file; later ones columns.
 */
function checkFetched(t: ExecutionContext, store: Machine, host: Machine): void {
  const bytes = Array.from({ length: files }, (_, file) => clickFile(file, rows).length);
  const whole = bytes.reduce((sum, one) => sum + one, 0);
  const got = gotBy(store, host, "clicks/");
  t.true(got > whole / 4 && got < 2 * whole, `${got} bytes of ${whole}`);
}

// In `npm test`, many-hosts.test.ts kills processes that share a disk, and the simulator cuts hosts
// off.
testIf(testAll, natsServer, separateMachines).serial(
  "two machines train the model of one process, though one is cut off and an empty one replaces it",
  async (t) => {
    const calm = await alone(4);
    const place = await startPlace(t, 4);
    await place.root();
    const first = await place.host();
    const second = await place.host();
    const running = await place.submit(4, 1200);
    await running.line(isOf("run.checkpointed"));
    second.cut();
    await running.line(isOf("run.incident"));
    await second.kill();
    const third = await place.host(); // Has no index, durable rows or tables yet.
    const { digest, events } = await endOf(running);
    t.is(digest, calm);
    t.deepEqual(hostsOf(events)[0], [1, 2]);
    t.deepEqual(hostsOf(events).at(-1), [1, 3]);
    for (const host of [first, third]) checkFetched(t, place.store, host);
  },
);

testIf(testAll, natsServer, separateMachines).serial(
  "four machines train the model of one process, though half of them is cut off and returns",
  async (t) => {
    const calm = await alone(12);
    const place = await startPlace(t, 8);
    await place.root();
    const hosts = [await place.host(), await place.host(), await place.host(), await place.host()];
    const running = await place.submit(12, 2500);
    await running.line(isOf("run.checkpointed"));
    const half = hosts.slice(2);
    for (const one of half) one.cut();
    await running.line(isOf("run.incident"));
    await running.line((line) => isOf("run.started")(line) && !line.includes('"host":4'));
    for (const one of half) one.mend();
    const { digest, events } = await endOf(running);
    t.is(digest, calm);
    t.deepEqual(hostsOf(events)[0], [1, 2, 3, 4]);
    t.deepEqual(hostsOf(events).at(-1), [1, 2, 3, 4]);
    for (const host of hosts) checkFetched(t, place.store, host);
  },
);

testIf(testAll, natsServer, separateMachines).serial(
  "a machine that is lost with its disk is rebuilt from memory: the others read no part of the bucket",
  async (t) => {
    const calm = await alone(12);
    const place = await startPlace(t, 6);
    await place.root();
    const [first, second, third] = [await place.host(), await place.host(), await place.host()];
    const running = await place.submit(12, 2500);
    await running.line(isOf("run.buddies"));
    const before = [first, third].map((host) => gotBy(place.store, host, "run/checkpoints/"));
    await second.kill();
    await running.line(isOf("run.recovered"));
    const after = [first, third].map((host) => gotBy(place.store, host, "run/checkpoints/"));
    t.deepEqual(after, before);
    const { digest, events } = await endOf(running);
    t.is(digest, calm);
    const [recovered] = only(events, "run.recovered");
    t.is(recovered?.storeBytes, 0);
    t.true((recovered?.memoryBytes ?? 0) > 0);
  },
);

testIf(testAll, natsServer, separateMachines).serial(
  "if the leader's machine is lost with its disk, another leads and continues the run",
  async (t) => {
    const calm = await alone(12);
    const place = await startPlace(t, 4);
    const root = await place.root();
    await place.root(true);
    for (let host = 0; host < 2; host++) await place.host();
    const running = await place.submit(12, 2500);
    await running.line(isOf("run.checkpointed"));
    const lostMs = performance.now();
    await root.kill();
    await running.line((line) => line.includes("LEADER_REPLACED"));
    t.log(`led after ${Math.round(performance.now() - lostMs)} ms`);
    const { digest } = await endOf(running);
    t.is(digest, calm);
  },
);

testIf(testAll, natsServer, separateMachines, python3).serial(
  "links of 1 Gb/s with 1 % loss and 20 ms round trips change no bit of the model",
  async (t) => {
    const calm = await alone(2);
    // A frame passes two cables, so delay and loss count twice.
    const place = await startPlace(t, 4, { bitsPerSecond: 1e9, delayMs: 5, lossShare: 0.005 });
    await place.root();
    for (let host = 0; host < 2; host++) await place.host();
    const { digest, events } = await endOf(await place.submit(2, 0));
    t.is(digest, calm);
    t.deepEqual(hostsOf(events), [[1, 2]]);
  },
);
