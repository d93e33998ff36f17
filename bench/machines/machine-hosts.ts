// Hosts on machines that share nothing but a network (machines.ts), for a bench: a leader with the
// checkpoints on a machine of its own, and one host with one device on each of the others, each on
// one core. Two measurements are read on the machines: the bytes of their network devices, and the
// processor time of their processes.

import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { ExchangeTimes, RunEvent } from "../../internal.ts";
import type { LinkChoice } from "../../src/planner/fleet.ts";
import { limitProgram } from "../limits/limits.ts";
import { type BareMachine, type BareNetwork, type Cable, startBareNetwork } from "./machines.ts";

/**
 * How frames of the exchange travel: `a` through one nats-server on the leader's machine; `b`
 * through a nats-server on each host's machine, joined as a cluster; `c` over direct links.
 */
export type Way = "a" | "b" | "c";

/** A run's means over the measured seconds. */
export interface MeasuredRun {
  readonly stepMs: number;
  /** Shares of a step. */
  readonly exchange: Pick<ExchangeTimes, "exposed" | "inFlight" | "hidden">;
  /** Bytes that a host's machine sends in a step, headers of the network included. */
  readonly sentBytes: number;
  /** Processor milliseconds of a step, over the processes of all machines. */
  readonly processorMs: number;
  /** The links as measured by the hosts, if they measured them for this run. */
  readonly links: LinkChoice["measured"];
  readonly events: readonly Progress[];
  /** The trace of some steps that `osiris trace` wrote; left out: none was requested. */
  readonly trace?: readonly TraceEvent[];
}

/** An event of a trace (actors/client/chrome-trace.ts), as far as readers of it need. */
export interface TraceEvent {
  readonly name: string;
  readonly cat?: string;
  readonly pid: number;
  readonly tid: number;
  /** Microseconds. */
  readonly ts?: number;
  readonly dur?: number;
  readonly args?: { readonly name?: string };
}

const programOf = (path: string) => new URL(`../../${path}`, import.meta.url).pathname;
const leaderAddress = "10.99.0.1";
const leaderNats = `nats://${leaderAddress}:4222`;
const usualWarmMs = 4000;
/** A clock tick of the kernel's processor times. */
const tickMs = 10;

/**
 * The job: 4 MiB of vectors and gradients leave each of two hosts in a step, and little is
 * computed, as the cores are few.
 */
function jobOf(steps: number) {
  const tables = Array.from({ length: 16 }, (_, i) => ({ name: `t${i}`, rows: 20_000, dim: 64 }));
  return {
    model: { kind: "dlrm", dense: 13, tables, bottom: [64], top: [64, 1] },
    data: {
      ...{ kind: "synthetic", samples: 40_960, dense: 13, batchSize: 2048, epochs: steps / 20 },
      cache: "/tmp/cache",
    },
    checkpoint: { directory: "s3://bucket/run", everySteps: 1_000_000 },
    stepDeadlineMs: 60_000,
  };
}

/** The bare rate of a cable: one socket pair in C, between two machines. Bytes a second. */
export async function bareRate(cable: Cable, seconds: number): Promise<number> {
  return await within(cable, async (network) => {
    const [one, two] = [await network.machine({}, "0"), await network.machine({}, "1")];
    const program = limitProgram();
    two.shell(`${program} tcpServe 5000 > rate 2>&1 &`);
    const printed = one.shell(`sleep 0.3; ${program} tcpSend ${two.address} 5000 ${seconds}`);
    return (JSON.parse(printed) as { readonly rate: number }).rate;
  });
}

/** How hosts on machines are joined, and started. */
export interface MachinesOptions {
  readonly cable: Cable;
  readonly hosts: number;
  readonly way: Way;
  /** Flags of `osiris up` for the way. */
  readonly flags: readonly string[];
  /** Cores of the machine; host i is on core i modulo this. */
  readonly cores: number;
}

/** Trains on machines for some seconds. */
export async function trainOnMachines(
  options: MachinesOptions & { readonly seconds: number },
): Promise<MeasuredRun> {
  return await onMachines(options, (train) => train(jobOf(2e6), options.seconds));
}

/**
 * Trains a job for `warmMs`, in which its programs are compiled, and for the measured seconds.
 * `traced`: the number of steps after these seconds that are traced.
 */
export type Train = (
  job: object,
  seconds: number,
  more?: { readonly warmMs?: number; readonly traced?: number },
) => Promise<MeasuredRun>;

/** Starts machines, on which `use` may train jobs, one after the other. */
export async function onMachines<Result>(
  { cable, hosts, way, flags, cores }: MachinesOptions,
  use: (train: Train) => Promise<Result>,
): Promise<Result> {
  return await within(cable, async (network) => {
    const leader = await startLeader(network, hosts, flags);
    const machines: BareMachine[] = [];
    for (let host = 0; host < hosts; host++) {
      const machine = await network.machine(environment, `${host % cores}`);
      machines.push(machine);
      if (way === "b") startServer(machine, host + 2, hosts);
      const nats = way === "b" ? `nats://${machine.address}:4222` : leaderNats;
      const started = osiris(machine, "host", "--nats", nats, "--devices", "1", "--json");
      await started.line('"report":"host"');
    }
    return await use((job, seconds, more) =>
      measured({ leader, machines, nats: leaderNats, job, seconds, ...more }),
    );
  });
}

/** The same job on two devices of one process, on the cores of the machine. */
export async function trainAlone(cores: number, seconds: number): Promise<MeasuredRun> {
  return await within({ bitsPerSecond: 1e10 }, async (network) => {
    const leader = await startBucket(network, `0-${cores - 1}`);
    const up = osiris(leader, "up", "--devices", "2", "--port", "4222", "--json");
    await up.line('"up"');
    const job = jobOf(2e6);
    return await measured({ leader, machines: [], nats: "nats://127.0.0.1:4222", job, seconds });
  });
}

const environment = {
  AWS_ENDPOINT_URL_S3: `http://${leaderAddress}:9000`,
  AWS_REGION: "us-east-1",
  AWS_ACCESS_KEY_ID: "KEY",
  AWS_SECRET_ACCESS_KEY: "secret",
};

/** A program on a machine, and the lines that it prints. */
class Program {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;
  #told = "";

  constructor({ inside }: BareMachine, path: string, args: readonly string[]) {
    const [command = "", ...rest] = [...inside, process.execPath, programOf(path), ...args];
    this.#child = spawn(command, rest, { cwd: "/", stdio: ["ignore", "pipe", "pipe"] });
    const { stdout, stderr } = this.#child;
    stderr?.on("data", (text) => {
      this.#told += text;
    });
    if (stdout === null) throw new RangeError("The program has no output");
    this.#lines = createInterface({ input: stdout })[Symbol.asyncIterator]();
  }

  /** The next line that contains one of these. */
  async line(...parts: readonly string[]): Promise<string> {
    for (;;) {
      const { value, done } = await this.#lines.next();
      if (done === true) throw new Error(`A program ended early: ${this.#told}`);
      this.#told += `${value}\n`;
      if (parts.some((part) => value.includes(part))) return value;
    }
  }
}

const osiris = (machine: BareMachine, ...args: readonly string[]) =>
  new Program(machine, "cli/main.js", args);

async function within<Result>(
  cable: Cable,
  run: (network: BareNetwork) => Promise<Result>,
): Promise<Result> {
  const ends: (() => void | Promise<void>)[] = [];
  const t = { teardown: (end: () => void | Promise<void>) => void ends.push(end) };
  try {
    return await run(await startBareNetwork(t, cable));
  } finally {
    for (const end of ends.reverse()) await end();
  }
}

async function startBucket(network: BareNetwork, cores?: string): Promise<BareMachine> {
  const leader = await network.machine(environment, cores);
  const served = new Program(leader, "bench/service/bucket-program.js", [leaderAddress, "9000"]);
  await served.line("9000");
  return leader;
}

async function startLeader(
  network: BareNetwork,
  hosts: number,
  flags: readonly string[],
): Promise<BareMachine> {
  const leader = await startBucket(network);
  startServer(leader, 1, hosts);
  const up = osiris(
    leader,
    "up",
    ...["--nats", leaderNats],
    "--devices",
    "0",
    "--min-devices",
    `${hosts}`,
    ...flags,
    "--json",
  );
  await up.line('"up"');
  return leader;
}

/** Starts a nats-server that forms a cluster with the nats-servers of other machines. */
function startServer(machine: BareMachine, number: number, hosts: number): void {
  const routes = Array.from({ length: hosts + 1 }, (_, i) => `nats://10.99.0.${i + 1}:6222`);
  const cluster = `--cluster_name bench --cluster nats://0.0.0.0:6222 --routes ${routes.join(",")}`;
  machine.shell(`nats-server -n n${number} -a 0.0.0.0 -p 4222 ${cluster} > nats.log 2>&1 &`);
}

export type Progress = Extract<RunEvent, { readonly type: "run.progress" }>;

/** Trains, and measures. `machines`: the machines of hosts, without the leader's. */
async function measured(options: {
  readonly leader: BareMachine;
  readonly machines: readonly BareMachine[];
  readonly nats: string;
  readonly job: object;
  readonly seconds: number;
  readonly warmMs?: number;
  readonly traced?: number;
}): Promise<MeasuredRun> {
  const { leader, machines, nats, job, seconds, warmMs = usualWarmMs, traced } = options;
  leader.write("job.json", JSON.stringify(job));
  const running = osiris(leader, "submit", "job.json", "--nats", nats, "--follow", "--json");
  const started = JSON.parse(await running.line('"type":"run.started"', '"type":"run.failed"'));
  if (started.type === "run.failed") throw new Error(started.error.message);
  let step = 0;
  const untilMs = async (ms: number): Promise<Progress[]> => {
    const events: Progress[] = [];
    for (const startMs = performance.now(); performance.now() - startMs < ms; ) {
      const next = JSON.parse(await running.line('"type":"run.progress"', '"type":"run.failed"'));
      if (next.type === "run.failed") throw new Error(next.error.message);
      step = next.step;
      events.push(next);
    }
    return events;
  };
  await untilMs(warmMs);
  const [from, fromStep] = [sampled(leader, machines), step];
  const events = await untilMs(1000 * seconds);
  const to = sampled(leader, machines);
  const steps = step - fromStep;
  const trace = traced === undefined ? undefined : await traceOf(leader, nats, started.run, traced);
  if (machines.length > 0) {
    // The next job may start when this one has ended.
    osiris(leader, "cancel", started.run, "--nats", nats, "--json");
    await running.line('"type":"run.finished"', '"type":"run.failed"');
  }
  return {
    links: started.links?.measured,
    events,
    ...(trace !== undefined && { trace }),
    stepMs: (to.atMs - from.atMs) / steps,
    exchange: meanExchange(events),
    sentBytes: (to.sentBytes - from.sentBytes) / steps / Math.max(1, machines.length),
    processorMs: (to.processorMs - from.processorMs) / steps,
  };
}

/**
 * Traces the next steps: tasks, waits and the names of threads. Past steps are not traced, because
 * they shared the cores with the start of the command.
 */
async function traceOf(leader: BareMachine, nats: string, run: string, steps: number) {
  const path = "/tmp/trace.json";
  const next = ["--steps", `${steps}`];
  await osiris(leader, "trace", run, "--nats", nats, "-o", path, ...next, "--json").line('"trace"');
  const lines = leader.shell(`grep -E '"cat":"(task|wait)"|"thread_name"' ${path}`).trim();
  return lines.split("\n").map((line) => JSON.parse(line.replace(/,$/, "")) as TraceEvent);
}

/** Bytes that the hosts' machines have sent, and processor time of all machines' processes. */
function sampled(leader: BareMachine, machines: readonly BareMachine[]) {
  const atMs = performance.now();
  let [sentBytes, ticks] = [0, 0];
  for (const machine of [leader, ...machines]) {
    const text = machine.shell(
      "cat /proc/net/dev; echo; cat /proc/[0-9]*/stat 2>/dev/null || true",
    );
    const [devices = "", processes = ""] = text.split("\n\n");
    if (machine !== leader) sentBytes += Number(/eth0:\s*(?:\d+\s+){8}(\d+)/.exec(devices)?.[1]);
    for (const line of processes.trim().split("\n")) {
      const fields = line.slice(line.lastIndexOf(")") + 2).split(" ");
      ticks += Number(fields[11] ?? 0) + Number(fields[12] ?? 0);
    }
  }
  return { atMs, sentBytes, processorMs: tickMs * ticks };
}

function meanExchange(events: readonly Progress[]) {
  const sums = { exposed: 0, inFlight: 0, hidden: 0 };
  let weight = 0;
  for (const { times } of events) {
    if (times?.exchange === undefined) continue;
    const ms = times.steps * times.stepMs;
    weight += ms;
    for (const key of ["exposed", "inFlight", "hidden"] as const) {
      sums[key] += ms * times.exchange[key];
    }
  }
  const { exposed, inFlight, hidden } = sums;
  return { exposed: exposed / weight, inFlight: inFlight / weight, hidden: hidden / weight };
}
