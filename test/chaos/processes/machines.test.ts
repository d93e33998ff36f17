// Runs on machines that share nothing but a network (test/helpers/machines): the model is that of
// one process, whatever is cut, lost or replaced.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ExecutionContext } from "ava";
import type { JobOptions, RunEvent } from "../../../index.ts";
import { only, runJob, startTestCluster } from "../../helpers/clusters/clusters.ts";
import { clickFile } from "../../helpers/machines/click-files.ts";
import { type Machine, startNetwork } from "../../helpers/machines/machines.ts";
import { natsServer, separateMachines, testAll, testIf } from "../../helpers/needs.ts";
import type { Running } from "../../helpers/processes/start-cli.ts";

const filesProgram = new URL("../../helpers/machines/files-program.js", import.meta.url).pathname;
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

/** The result of the job in this process. */
async function alone(t: ExecutionContext, epochs: number) {
  const home = mkdtempSync(join(tmpdir(), "osiris-machines-"));
  t.teardown(() => rmSync(home, { recursive: true, force: true }));
  for (let file = 0; file < files; file++) {
    writeFileSync(join(home, `part-${file}.parquet`), clickFile(file, rows));
  }
  await using cluster = await startTestCluster(2);
  const job = jobAt(home, join(home, "run"), epochs);
  const data = { ...job.data, cache: join(home, "cache"), streamed: true } as JobOptions["data"];
  return (await runJob(cluster, { ...job, data })).result;
}

/** A network with a machine of data and of the broker, and the root of a cluster over them. */
async function startPlace(t: ExecutionContext, minDevices: number) {
  const network = await startNetwork(t);
  const shared = mkdtempSync(join(tmpdir(), "osiris-machines-"));
  t.teardown(() => rmSync(shared, { recursive: true, force: true }));
  const start = () => network.machine({ shared });
  const [data, broker, root] = await Promise.all([start(), start(), start()]);
  const served = data.node(filesProgram, `${files}`, `${rows}`, "80");
  broker.shell("nats-server -a 0.0.0.0 -p 4222 > nats.log 2>&1 &");
  await served.line((line) => line === "listening");
  const nats = ["--nats", `nats://${broker.address}:4222`];
  const least = ["--devices", "0", "--min-devices", `${minDevices}`];
  const up = root.osiris("up", ...nats, ...least, "--json");
  await up.line((line) => line.includes('"up"'));
  return {
    data,
    root,
    async host() {
      const machine = await start();
      const host = machine.osiris("host", ...nats, "--devices", "2", "--json");
      await host.line((line) => line.includes('"report":"host"'));
      return machine;
    },
    /**
     * Submits the job from the root's machine, and follows its run, whose readers read so many
     * samples a second at most: it lasts while machines are lost and started.
     */
    async submit(epochs: number, samplesPerSecond: number): Promise<Running> {
      const job = jobAt(`http://${data.address}`, "/mnt/shared/run", epochs);
      root.write("job.json", JSON.stringify(job));
      const running = root.osiris("submit", "job.json", ...nats, "--follow", "--json");
      const { run } = JSON.parse(await running.line(isOf("run.queued"))) as { run: string };
      const rate = [run, `${samplesPerSecond}`];
      await root.osiris("reader", "rate", ...rate, ...nats).ended;
      return running;
    },
  };
}

/** Accepts the lines of the events of a type, in a generation. */
function isOf(type: RunEvent["type"], generation?: number): (line: string) => boolean {
  const own = generation === undefined ? "" : `"generation":${generation}}`;
  return (line) => line.startsWith(`{"type":"${type}"`) && line.endsWith(own);
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

/** The bytes that the machine of the data has sent of each file so far. */
function sentBy(data: Machine): number[] {
  const ask = "fetch('http://127.0.0.1/sent').then((r) => r.text()).then((s) => console.log(s))";
  return JSON.parse(data.shell(`${process.execPath} -e "${ask}"`)) as number[];
}

/** Hosts of each generation. */
const hostsOf = (events: readonly RunEvent[]) =>
  only(events, "run.started").map(({ hosts }) => hosts.map(({ host }) => host));

/**
 * A host fetches no range twice, in however many epochs: what it has read lies on its own disk. The
 * first read of a file has its last 64 KiB, which are all of a small one, and the others its columns.
 */
function checkSent(t: ExecutionContext, data: Machine, hosts: number): void {
  for (const [file, bytes] of sentBy(data).entries()) {
    const whole = clickFile(file, rows).length;
    t.true(bytes < 2 * hosts * whole, `${bytes} bytes of ${whole}, for ${hosts} hosts`);
  }
}

testIf(natsServer, separateMachines).serial(
  "two machines train the model of one process, though one is cut off and an empty one replaces it",
  async (t) => {
    const calm = await alone(t, 6);
    const place = await startPlace(t, 4);
    await place.host();
    const second = await place.host();
    const running = await place.submit(6, 2500);
    await running.line(isOf("run.checkpointed", 1));
    second.cut();
    await running.line(isOf("run.incident"));
    await second.kill();
    await place.host(); // It makes its index, its durable rows and its part of the tables anew.
    const { digest, events } = await endOf(running);
    t.is(digest, calm.digest);
    t.deepEqual(hostsOf(events)[0], [1, 2]);
    t.deepEqual(hostsOf(events).at(-1), [1, 3]);
    checkSent(t, place.data, 3);
  },
);

testIf(testAll, natsServer, separateMachines).serial(
  "four machines train the model of one process, though a partition is cut and heals",
  async (t) => {
    const calm = await alone(t, 12);
    const place = await startPlace(t, 8);
    for (let i = 0; i < 2; i++) await place.host();
    const others = [await place.host(), await place.host()];
    const running = await place.submit(12, 2500);
    await running.line(isOf("run.checkpointed", 1));
    for (const one of others) one.cut();
    await running.line(isOf("run.incident"));
    await running.line(isOf("run.started", 2));
    for (const one of others) one.mend();
    const { digest, events } = await endOf(running);
    t.is(digest, calm.digest);
    t.deepEqual(hostsOf(events)[0], [1, 2, 3, 4]);
    t.deepEqual(hostsOf(events).at(-1), [1, 2, 3, 4]);
    checkSent(t, place.data, 4);
  },
);
