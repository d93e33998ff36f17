// Question: how long does it take until a job is acknowledged, and thus on disk? 50 concurrent
// clients submit one job after the other, over a real nats-server. The first round has rows of its
// own, as V8 still compiles the code of the leader and the clients.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Option } from "commander";
import { connect } from "nats";
import { purposes, RandomStream } from "../../src/ports/random.ts";
import { temporaryHome } from "../../storage/disk/temporary-home.ts";
import { type Bench, notNegative, positiveOption, together } from "../bench.ts";
import { type BenchRow, quantileOf } from "../row.ts";
import { startNatsServer } from "./nats-server.ts";

interface JobsBenchOptions {
  /** Clients at once, each with a connection of its own. */
  readonly clients: number;
  /** Jobs that each of them submits. */
  readonly jobs: number;
  /** Mean wait of a client after an answer, in milliseconds: uniform from 0 to twice the mean. */
  readonly pause: number;
  /** Whether the server has JetStream; the leader then copies every accepted job into it. */
  readonly jetstream: boolean;
}

const subject = "osiris.c1.jobs.submit";
/** Bounds of the median and of the 99th percentile, milliseconds. */
const medianMsMax = 10;
const lastMsMax = 50;

export const jobsBench: Bench<JobsBenchOptions> = {
  question: "how long until a job is acknowledged and kept, over a real nats-server",
  options: [
    positiveOption("--clients <count>", "clients that submit at once", 50),
    positiveOption("--jobs <count>", "jobs of each client, one after the other", 40),
    new Option("--pause <ms>", "mean pause of a client between two; 0: none")
      .argParser(notNegative)
      .default(100),
    new Option("--jetstream", "use a server with JetStream, into which runs are copied").default(
      false,
    ),
  ],
  measurements(options) {
    const { clients, jobs, pause } = options;
    // Two rounds; in addition to the pauses, a job takes a few milliseconds of one core.
    const seconds = 4 + 2 * jobs * Math.max(pause / 1000, 0.003 * clients);
    const names = ["first", "then"].flatMap((round) =>
      ["median", "p99", "rate"].map((what) => `submit.${round}.${what}`),
    );
    return [together(names, seconds, () => rowsOf(options))];
  },
};

/** @throws Error without a `nats-server` */
async function rowsOf({ clients, jobs, pause, jetstream }: JobsBenchOptions): Promise<BenchRow[]> {
  using home = temporaryHome("osiris-jobs-");
  let root: ChildProcess | undefined;
  await using server = await startNatsServer("jobs", (own) => {
    return ["--auth", "t", ...(jetstream ? ["-js", "-sd", join(own, "jetstream")] : [])];
  });
  try {
    const { url } = server;
    const program = fileURLToPath(new URL("./jobs-root.js", import.meta.url));
    root = fork(program, [url, join(home.path, "state")], { silent: true });
    if (root.stdout !== null) await once(root.stdout, "data");
    const connections = await Promise.all(
      Array.from({ length: clients }, () => connect({ servers: url, token: "t" })),
    );
    const random = new RandomStream(1, purposes.faults);
    const chance = () => random.uniform();
    const submitAll = async (round: string, count: number) => {
      const times: number[] = [];
      const fromMs = performance.now();
      const oneByOne = connections.map(async (connection, client) => {
        for (let job = 0; job < count; job++) {
          const payload = jobIn(home.path, `${round}-${client}-${job}`);
          const askedMs = performance.now();
          const answer = await connection.request(subject, payload, { timeout: 10_000 });
          times.push(performance.now() - askedMs);
          const { error } = answer.json<{ error?: { message: string } }>();
          if (error !== undefined) throw new Error(error.message);
          if (pause > 0) await sleep(2 * pause * chance());
        }
      });
      await Promise.all(oneByOne);
      return { times, perSecond: (1000 * times.length) / (performance.now() - fromMs) };
    };
    const first = await submitAll("first", jobs);
    const then = await submitAll("then", jobs);
    await Promise.all(connections.map((connection) => connection.close()));
    return [...rowsFor("submit.first", first), ...rowsFor("submit.then", then)];
  } finally {
    root?.kill("SIGKILL");
  }
}

function rowsFor(
  name: string,
  { times, perSecond }: { readonly times: readonly number[]; readonly perSecond: number },
): BenchRow[] {
  const at = quantileOf(times);
  const bounded = (what: string, figure: number, limit: number): BenchRow => ({
    ...{ name: `${name}.${what}`, figure, unit: "ms", limit, limitIs: "bound" },
    ...{ ratio: figure / limit, spread: [at(0.1), at(0.9)] },
  });
  return [
    bounded("median", at(0.5), medianMsMax),
    bounded("p99", at(0.99), lastMsMax),
    {
      ...{ name: `${name}.rate`, figure: perSecond, unit: "jobs/s" },
      spread: [perSecond, perSecond],
    },
  ];
}

/** A small job of its own directory, as JSON. */
function jobIn(directory: string, name: string): string {
  const tables = ["a", "b", "c"].map((table) => ({ name: table, rows: 200, dim: 8 }));
  const model = { kind: "dlrm", dense: 4, tables, bottom: [8, 8], top: [8, 1] };
  const data = { kind: "synthetic", samples: 256, dense: 4, batchSize: 64 };
  const checkpoint = { directory: join(directory, name) };
  return JSON.stringify({ job: { name, model, data, checkpoint, devices: 1 }, key: name });
}
