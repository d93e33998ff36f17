// Question: what does a run cost per table? A job of many small tables through a cluster: submit,
// prepare and plan, assemble, checkpoint, kill, restore, evaluate, export; and the longest time in
// which a main thread answered nothing. On one host the leader's process is killed and started
// again; on two, the other host. What follows a kill has three parts: `detect`, until the loss is
// noticed or the new leader leads; `rejoin`, until the new process has joined and the data is open;
// and `restore`, until the devices train again.

import { type ChildProcess, fork, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { InvalidArgumentError, Option } from "commander";
import { type Client, connect, type Run, type RunEvent } from "../../internal.ts";
import { temporaryHome } from "../../storage/disk/temporary-home.ts";
import { type Bench, positive, together } from "../bench.ts";
import type { BenchRow } from "../row.ts";
import { wideJob } from "./wide-job.ts";

interface TablesBenchOptions {
  readonly tables: readonly number[];
  readonly hosts: readonly number[];
}

const ofRun = ["submit", "prepare", "assemble", "checkpoint", "detect", "rejoin", "restore"];
const phases = [...ofRun, "evaluate", "export"];
/** Target milliseconds per table (issue 41). */
const targets: Readonly<Record<string, number>> = { assemble: 2, checkpoint: 3, restore: 3 };
const gapMsMax = 250;
const file = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const main = file("../../cli/main.js");

export const tablesBench: Bench<TablesBenchOptions> = {
  question: "what a run costs per table, and how long a main thread answers nothing",
  options: [
    new Option("--tables <counts>", "tables of the jobs, as 100,1000")
      .argParser(counts)
      .default([100, 1000]),
    new Option("--hosts <counts>", "processes of the clusters, 1 or 2")
      .argParser(counts)
      .default([1, 2]),
  ],
  full: { tables: [100, 1000, 10_000] },
  measurements: ({ tables, hosts }) =>
    tables.flatMap((count) =>
      hosts.map((processes) => {
        const name = `tables.${count}.hosts${processes}`;
        const names = [...phases, "bytes", "gap"].map((what) => `${name}.${what}`);
        return together(names, 20 + 0.06 * count, () => rowsOf(name, count, processes));
      }),
    ),
};

function counts(text: string): number[] {
  const all = text.split(",").map(positive);
  if (all.length === 0) throw new InvalidArgumentError("Expected integers >= 1, as 100,1000.");
  return all;
}

async function rowsOf(name: string, tables: number, hosts: number): Promise<BenchRow[]> {
  using home = temporaryHome("osiris-tables-");
  await using cluster = new BenchCluster(home.path, hosts);
  try {
    const seconds = await throughCluster(cluster, tables, home.path);
    const rows = phases.map((phase): BenchRow => {
      const figure = (1000 * (seconds[phase] ?? Number.NaN)) / tables;
      const limit = targets[phase];
      const bound = limit === undefined ? {} : { limit, limitIs: "bound", ratio: figure / limit };
      const spread = [figure, figure] as const;
      return { name: `${name}.${phase}`, figure, unit: "ms/table", ...bound, spread };
    });
    const bytes = bytesIn(join(home.path, "run"));
    const gapMs = cluster.longestGapMs();
    return [
      ...rows,
      { name: `${name}.bytes`, figure: bytes, unit: "B", spread: [bytes, bytes] },
      {
        ...{ name: `${name}.gap`, figure: gapMs, unit: "ms", limit: gapMsMax, limitIs: "bound" },
        ...{ ratio: gapMs / gapMsMax, spread: [gapMs, gapMs] },
      },
    ];
  } finally {
    await cluster.stop();
  }
}

/** The seconds of each phase. */
async function throughCluster(
  cluster: BenchCluster,
  tables: number,
  directory: string,
): Promise<Record<string, number>> {
  const seconds: Record<string, number> = {};
  const job = wideJob(tables, directory);
  // Enough steps that the run still trains when its checkpoint is requested and its host is killed.
  const long = { ...job, data: { ...job.data, epochs: 1000 } } as typeof job;
  const timed = async <Value>(phase: string, of: Promise<Value>): Promise<Value> => {
    const fromMs = performance.now();
    const value = await of;
    seconds[phase] = (performance.now() - fromMs) / 1000;
    return value;
  };
  let client = await cluster.start();
  let run = await timed("submit", client.submit({ ...long, devices: 2, stepDeadlineMs: 60_000 }));
  let events = new Followed(run);
  await timed("prepare", events.next("run.prepared"));
  await timed("assemble", events.next("run.started"));
  await timed("checkpoint", run.checkpoint());
  const isLed = cluster.hosts === 1;
  const broken = cluster.breakIt(client);
  client = await (isLed ? timed("detect", broken) : broken);
  run = client.run(run.run);
  if (isLed) events = new Followed(run, events.seen);
  else await timed("detect", lossIn(events, new Date()));
  events.atMs.clear();
  const noticedMs = performance.now();
  await events.next("run.started");
  // The run may have been prepared without the lost host, before the new one joined.
  const preparedMs = events.atMs.get("run.prepared") ?? Number.NaN;
  seconds.rejoin = (preparedMs - noticedMs) / 1000;
  seconds.restore = (performance.now() - preparedMs) / 1000;
  await run.checkpoint();
  await run.cancel();
  await run.result().catch(() => undefined);
  await cluster.stop();
  const model = join(directory, "run");
  await timed("evaluate", command(["eval", model, "--held-out"]));
  await timed("export", command(["export", model, "--to", join(directory, "model.safetensors")]));
  return seconds;
}

/** Resolves when the run has noticed a loss. @throws Error where it failed before `killed` */
async function lossIn(events: Followed, killed: Date): Promise<void> {
  const { at, error } = await events.next("run.incident");
  if (new Date(at) < killed) throw new Error(`The run failed before the kill: ${error.message}`);
}

/** The events of a run, in order, for one reader. */
class Followed {
  readonly #events: AsyncIterator<RunEvent>;
  /** When the last event of each type came. */
  readonly atMs = new Map<RunEvent["type"], number>();
  seen = 0;

  constructor(run: Run, since = 0) {
    this.seen = since;
    this.#events = run.events({ since })[Symbol.asyncIterator]();
  }

  /** Resolves at the next event of a type. @throws Error where the run ends before */
  async next<Type extends RunEvent["type"]>(
    type: Type,
  ): Promise<Extract<RunEvent, { type: Type }>> {
    for (;;) {
      const { value, done } = await this.#events.next();
      if (done === true) throw new Error(`The run ended before ${type}`);
      this.seen = value.seq + 1;
      this.atMs.set(value.type, performance.now());
      if (value.type === type) return value as Extract<RunEvent, { type: Type }>;
      if (value.type === "run.failed") throw new Error(value.error.message);
    }
  }
}

/** The message that the process of a leader sends. */
interface Address {
  readonly url: string | undefined;
}

/** The processes of a cluster: a leader with a device, and other hosts. */
class BenchCluster implements AsyncDisposable {
  readonly #directory: string;
  readonly hosts: number;
  #root: ChildProcess | undefined;
  readonly #others: ChildProcess[] = [];
  #port = "0";

  constructor(directory: string, hosts: number) {
    this.#directory = directory;
    this.hosts = hosts;
  }

  async start(): Promise<Client> {
    const own = this.hosts === 1 ? "2" : "1";
    const args = [own, "2", this.#port, join(this.#directory, "state")];
    const root = this.#fork("leader", args);
    this.#root = root;
    const ended = once(root, "exit").then(() => [{ url: undefined }]);
    const [{ url }] = await Promise.race([once(root, "message") as Promise<[Address]>, ended]);
    if (url === undefined) throw new Error(`The leader ended with exit code ${root.exitCode}`);
    this.#port = new URL(url).port;
    for (let host = 1; host < this.hosts; host++) this.#join(url);
    return await connect({ nats: url, token: "bench" });
  }

  /** Kills a process, and starts another in its place; returns a client of the cluster. */
  async breakIt(client: Client): Promise<Client> {
    const [other] = this.#others.splice(0, 1);
    if (other !== undefined) {
      await killed(other);
      this.#join(`nats://127.0.0.1:${this.#port}`);
      return client;
    }
    if (this.#root !== undefined) await killed(this.#root);
    return await this.start();
  }

  async stop(): Promise<void> {
    const all = [...this.#others.splice(0), ...(this.#root === undefined ? [] : [this.#root])];
    this.#root = undefined;
    await Promise.all(all.map(killed));
  }

  longestGapMs(): number {
    const files = ["leader", "host"].map((role) => join(this.#directory, `${role}.gaps`));
    const lines = files.filter(existsSync).flatMap((one) => readFileSync(one, "utf8").split("\n"));
    const gaps = lines.filter(Boolean).map((line) => (JSON.parse(line) as { gapMs: number }).gapMs);
    return Math.max(0, ...gaps);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  #join(url: string): void {
    this.#others.push(this.#fork("host", ["1", "1", "0", "", url]));
  }

  #fork(role: string, args: readonly string[]): ChildProcess {
    const env = { ...process.env, OSIRIS_GAPS: join(this.#directory, `${role}.gaps`) };
    const stdio = ["ignore", "ignore", "inherit", "ipc"] as const;
    return fork(file("./tables-root.js"), args, { env, stdio: [...stdio] });
  }
}

async function killed(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGKILL");
  await once(child, "exit");
}

/** Runs `osiris` with these arguments. @throws Error where it fails */
async function command(args: readonly string[]): Promise<void> {
  const child = spawn(process.execPath, [main, ...args], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  const [code] = await once(child, "exit");
  if (code !== 0) throw new Error(`osiris ${args[0]} ended with exit code ${code}`);
}

function bytesIn(directory: string): number {
  const entries = readdirSync(directory, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);
}
