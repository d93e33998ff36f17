// Question: what does watching cost, as processor time over that of training? Limit: 1 %.
//
// `steps`: what a device does besides in each step, its meter and its trace, done over and over on
// one thread: every wait twice, and every 100th step traced and handed over.
// `process`: what the main thread does more in a run of two devices that is traced, logged at
// `debug` and scraped every second, than in one that is not, run in turn; over the time in which
// the devices computed. `all`: both together.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type EventLoopUtilization, performance } from "node:perf_hooks";
import { Worker } from "node:worker_threads";
import {
  Cluster,
  type JobOptions,
  openExporter,
  type RunResult,
  type StepTimes,
} from "../index.ts";
import { realClock } from "../src/clock.ts";
import type { Cells } from "../src/exchange/cells.ts";
import { createStepMeter, meterWords, waitedFor } from "../src/training/step-meter.ts";
import { createStepTrace, stepStages } from "../src/training/step-trace.ts";
import { configuration } from "./configurations.ts";
import { type BenchRow, quantiles } from "./report.ts";

export interface ObservabilityBenchOptions {
  /** Runs that are watched, and as many that are not. */
  readonly rounds: number;
}

const everySteps = 100;
const devices = 2;
const bound = 0.01;

export async function benchObservability({
  rounds,
}: ObservabilityBenchOptions): Promise<BenchRow[]> {
  await using collector = await startCollector();
  const directory = mkdtempSync(join(tmpdir(), "osiris-bench-"));
  const shares: number[] = [];
  let times: StepTimes | undefined;
  try {
    await runOnce(directory, "first", undefined); // Makes the data, and warms the main thread.
    for (let round = 0; round < rounds; round++) {
      const plain = await runOnce(directory, `plain-${round}`, undefined);
      const watched = await runOnce(directory, `watched-${round}`, collector.endpoint);
      shares.push(watched.mainShare - plain.mainShare);
      times = watched.times;
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
  if (times === undefined) throw new RangeError("No run has told its times");
  const workMs = times.stepMs * (times.shares.computing + times.shares.sendingIds);
  const steps = (await stepWorkMs()).map((ms) => ms / workMs);
  const all = shares.map((share) => share + quantiles(steps).median);
  return [
    { ...rowOf("steps", steps), times },
    rowOf("process", shares),
    {
      ...rowOf("all", all),
      limit: bound,
      limitIs: "allowed",
      ratio: quantiles(all).median / bound,
    },
  ];
}

function rowOf(name: string, shares: readonly number[]): BenchRow {
  const { median, spread } = quantiles(shares.map((share) => 100 * share));
  return { name: `observability.${name}`, figure: median, unit: "% of training", spread };
}

/** A collector on a thread of its own: what it does with spans is not ours. */
async function startCollector() {
  const code = `
    const { createServer } = require("node:http");
    const { parentPort } = require("node:worker_threads");
    const server = createServer((request, response) => {
      request.resume().on("end", () => response.end("{}"));
    });
    server.listen(0, "127.0.0.1", () => parentPort.postMessage(server.address().port));`;
  const worker = new Worker(code, { eval: true });
  const port = await new Promise<number>((resolve) => {
    worker.once("message", resolve);
  });
  return {
    endpoint: `http://127.0.0.1:${port}`,
    [Symbol.asyncDispose]: async () => void (await worker.terminate()),
  };
}

/** Configuration a, long enough for a few seconds. */
function jobIn(directory: string, name: string): JobOptions {
  return {
    model: configuration("a").model,
    data: {
      kind: "synthetic",
      samples: 512_000,
      dense: 13,
      batchSize: 2048,
      cache: join(directory, "cache"),
    },
    checkpoint: { directory: join(directory, name), everySteps: 100 },
  };
}

/** One run. `mainShare`: what the main thread did, over what the devices computed. */
async function runOnce(directory: string, name: string, endpoint: string | undefined) {
  let logged = 0;
  const write = (line: string) => {
    logged += line.length;
  };
  const watching =
    endpoint === undefined
      ? {}
      : { tracing: { endpoint, everySteps }, log: { level: "debug", write } as const };
  await using cluster = await Cluster.start({ devices, ...watching });
  const { url: nats, token = "" } = cluster;
  await using exporter = endpoint === undefined ? null : await openExporter({ nats, token });
  const run = await cluster.submit(jobIn(directory, name));
  let from: EventLoopUtilization | undefined;
  const scrape = setInterval(() => void exporter?.text(), 1000);
  let result: RunResult | undefined;
  for await (const event of run.events()) {
    if (event.type === "run.started") from = performance.eventLoopUtilization();
    if (event.type === "run.finished") result = event.result;
  }
  const { active } = performance.eventLoopUtilization(from);
  clearInterval(scrape);
  const times = result?.times;
  if (times === undefined) throw new RangeError(`Run ${run.run} has told no times`);
  const { computing, sendingIds } = times.shares;
  const workMs = devices * times.steps * times.stepMs * (computing + sendingIds);
  return { mainShare: active / workMs, times };
}

const stepRounds = 15;
const stepsOfRound = 20_000;

/** Milliseconds in a step of what a device does besides: some rounds. */
async function stepWorkMs(): Promise<number[]> {
  const meter = createStepMeter(
    new BigInt64Array(new SharedArrayBuffer(8 * meterWords)),
    realClock,
  );
  const trace = createStepTrace({
    everySteps,
    clock: realClock,
    tell: (traced) => void structuredClone(traced),
  });
  const there: Cells = { load: () => 0, store() {}, waitUntil: async () => {} };
  const waits = waitedFor
    .filter((what) => what !== "checkpoint")
    .map((what) => meter.cellsFor(what, there));
  const rounds: number[] = [];
  let step = 0;
  for (let round = 0; round < stepRounds; round++) {
    const fromMs = performance.now();
    for (let i = 0; i < stepsOfRound; i++, step++) {
      meter.begin(3);
      trace.begin();
      await meter.exchangeInput(async () => trace.enter(step + 1, "ids"));
      for (const stage of stepStages) trace.enter(step, stage);
      for (const wait of waits) {
        await wait.waitUntil(nothing, yes);
        await wait.waitUntil(nothing, yes);
      }
      trace.end(step);
      meter.end();
    }
    rounds.push((performance.now() - fromMs) / stepsOfRound);
  }
  return rounds;
}

const nothing = () => "nothing";
const yes = () => true;
