// Question: what does an answer cost over HTTP? A server in one process and its clients in another,
// both on the machine's two cores; one record a request, in plain JSON, with Zipf-distributed ids.
// Rows `.1`, `.8`, `.64`: that many clients, each of which sends its next request once it has its
// answer. Rows `.load`: the highest load of requests at fixed times whose p99 stays below 10 ms.
// `work`: processor time of the server's process for a request, which other programs on the machine
// affect less than wall-clock time. Limit: ONNX Runtime (WebAssembly, one thread) as the engine of
// the same server, in alternation.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { type Measurement, together } from "../../../bench/bench.ts";
import { type BenchRow, quantileOf, rowOf } from "../../../bench/row.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { drawnCheckpoint, drawRecord } from "./drawn-model.ts";
import { modelOf } from "./engine.bench.ts";
import type { Load, Measured } from "./http-client-program.ts";

export interface HttpOptions {
  /** Rows of each table. */
  readonly rows: number;
  /** Turns of each engine. */
  readonly rounds: number;
  /** Duration of each measurement. */
  readonly seconds: number;
}

const configs = ["b", "w"] as const;
const clientCounts = [1, 8, 64] as const;
const measures = ["p50", "p99", "rate", "work"] as const;
const units = { p50: "ms", p99: "ms", rate: "requests/s", work: "us" } as const;
const engines = ["osiris", "onnx"] as const;
const path = "/v1/models/m:predict";
const bodyCount = 256;
/** Warm-up: V8 compiles, WebAssembly twice, of which the second time runs in the background. */
const warmSeconds = 4;
/** The p99 that the highest load must stay below, in milliseconds. */
const p99MsMax = 10;
/** Loads that the search for the highest one tries. */
const probes = 6;

export function httpMeasurements(options: HttpOptions): Measurement[] {
  const { rounds, seconds } = options;
  const each = clientCounts.length * seconds + 1.5 * probes * (seconds + 0.5);
  return configs.map((config) => {
    const rows = clientCounts.flatMap((clients) =>
      measures.map((what) => `serve.http.${config}.${clients}.${what}`),
    );
    const names = [...rows, `serve.http.${config}.load`];
    return together(names, 20 + 2 * rounds * (each + warmSeconds + 2), () =>
      rowsOf(config, options),
    );
  });
}

/** The results of one engine in one round. */
interface Round {
  readonly closed: readonly Readonly<Record<(typeof measures)[number], number>>[];
  readonly load: number;
}

async function rowsOf(
  config: (typeof configs)[number],
  { rows, rounds, seconds }: HttpOptions,
): Promise<BenchRow[]> {
  const { job, directory } = await drawnCheckpoint(modelOf(config, rows));
  try {
    const stream = new RandomStream(3, 1, 1);
    const bodies = Array.from({ length: bodyCount }, () => {
      return JSON.stringify({ instances: [drawRecord(job, stream)] });
    });
    const found = { osiris: [] as Round[], onnx: [] as Round[] };
    for (let round = 0; round < rounds; round++) {
      for (const engine of engines) {
        found[engine].push(await roundOf(engine, directory, bodies, seconds));
      }
    }
    const rowFor = (name: string, unit: string, of: (round: Round) => number, target?: object) => {
      const named = { name: `serve.http.${config}.${name}`, unit, limitIs: "onnxruntime-web" };
      return rowOf({ ...named, ...target }, found.osiris.map(of), found.onnx.map(of));
    };
    const closed = clientCounts.flatMap((clients, i) =>
      measures.map((what) => {
        const name = `${clients}.${what}`;
        return rowFor(name, units[what], (one) => one.closed[i]?.[what] ?? Number.NaN);
      }),
    );
    return [...closed, rowFor("load", "requests/s", ({ load }) => load, { target: [3, 6] })];
  } finally {
    rmSync(dirname(directory), { recursive: true });
  }
}

async function roundOf(
  engine: (typeof engines)[number],
  directory: string,
  bodies: readonly string[],
  seconds: number,
): Promise<Round> {
  const server = fork(program("http-server-program"), [directory, engine]);
  const client = fork(program("http-client-program"));
  try {
    const [url] = (await once(server, "message")) as [string];
    const port = Number(new URL(url).port);
    const run = (load: Omit<Load, "port" | "path" | "bodies">) =>
      measured(client, { port, path, bodies, ...load });
    await run({ connections: 8, seconds: warmSeconds });
    const closed: Round["closed"][number][] = [];
    for (const connections of clientCounts) {
      const before = await workUs(server);
      const beginMs = performance.now();
      const { times, rate } = await run({ connections, seconds });
      const answers = (rate * (performance.now() - beginMs)) / 1000;
      const work = ((await workUs(server)) - before) / answers;
      const at = quantileOf(times);
      closed.push({ p50: at(0.5), p99: at(0.99), rate, work });
    }
    const most = Math.max(...closed.map(({ rate }) => rate));
    const load = await highestLoad(most, (rate) => run({ connections: 64, seconds, rate }));
    return { closed, load };
  } finally {
    server.kill("SIGKILL");
    client.kill("SIGKILL");
  }
}

/**
 * Bisects between a load that keeps the p99 limit and one that exceeds it. A load that exceeds it
 * is tried a second time, as one pause of the machine delays more than one percent of the answers.
 */
async function highestLoad(
  most: number,
  measure: (rate: number) => Promise<Measured>,
): Promise<number> {
  const keeps = async (rate: number) => {
    const { times, rate: reached, refused } = await measure(rate);
    return refused === 0 && reached > 0.95 * rate && quantileOf(times)(0.99) < p99MsMax;
  };
  let [kept, missed] = [0, 1.2 * most];
  for (let probe = 0; probe < probes; probe++) {
    const rate = probe === 0 ? 0.7 * most : (kept + missed) / 2;
    if ((await keeps(rate)) || (await keeps(rate))) kept = rate;
    else missed = rate;
  }
  return kept;
}

/** Microseconds of processor time that a server's process has used so far. */
async function workUs(server: ChildProcess): Promise<number> {
  server.send("work");
  const [{ user, system }] = (await once(server, "message")) as [NodeJS.CpuUsage];
  return user + system;
}

async function measured(client: ChildProcess, load: Load): Promise<Measured> {
  client.send(load);
  const answered = new AbortController();
  const { signal } = answered;
  const ended = once(client, "exit", { signal }).then(() => {
    throw new Error("The clients of the bench ended");
  });
  ended.catch(() => {}); // Handled also if it is never awaited.
  const [result] = (await Promise.race([once(client, "message", { signal }), ended])) as [Measured];
  answered.abort();
  return result;
}

function program(name: string): string {
  return fileURLToPath(new URL(`./${name}.js`, import.meta.url));
}
