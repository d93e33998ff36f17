// Question: what does observability cost, as processor time over that of training? Limit: 1 %.
//
// `steps`: the meter, the timeline and the trace of a device of several hosts, run repeatedly on
// one thread: every wait twice, every 100th step traced and handed over, and the figures of the
// caches of 26 tables. `process`:
// logs, traces and metrics of the whole process. A run of two devices is traced, and all its
// observations and events are recorded; then the recording is replayed repeatedly: logged at
// `debug`, exported to a collector, and scraped by Prometheus once a second. All processor time of
// this process counts, including that of the event sender and the collector. `all`: both. The
// processor time of training is the time in which the devices of that run computed.

import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { logEvent } from "../../actors/observe/event-lines.ts";
import { openObserver } from "../../actors/observe/observer.ts";
import { Cluster, type JobOptions, type RunEvent, type StepTimes } from "../../internal.ts";
import { openExporter } from "../../packages/dashboard/index.ts";
import type { Cells } from "../../src/exchange/cells.ts";
import { flightBytes, openFlightWaits } from "../../src/exchange/flights.ts";
import { realClock } from "../../src/ports/clock.ts";
import {
  type Launcher,
  type Observation,
  type Thread,
  workerLauncher,
} from "../../src/ports/launcher.ts";
import { openTimeline, timelineBytes } from "../../src/ports/timeline.ts";
import { createStepMeter, meterWords, waitedFor } from "../../src/training/meters/step-meter.ts";
import { createStepTrace } from "../../src/training/meters/step-trace.ts";
import { columnWords, writeHbm } from "../../src/training/meters/tier-column.ts";
import { stepTasks } from "../../src/training/step/step-graph.ts";
import { encodeBody } from "../../src/wire/messages/body.ts";
import { eventsSubject } from "../../src/wire/messages/subjects.ts";
import { temporaryHome } from "../../storage/disk/temporary-home.ts";
import { type Bench, positiveOption } from "../bench.ts";
import { configuration } from "../configurations.ts";
import { type BenchRow, quantiles } from "../row.ts";

interface ObservabilityBenchOptions {
  /** Rounds of each. */
  readonly rounds: number;
}

const everySteps = 100;
const devices = 2;
const bound = 0.01;

export const observabilityBench: Bench<ObservabilityBenchOptions> = {
  question: "processor time of metrics, traces and logs over that of training",
  options: [positiveOption("--rounds <count>", "rounds of each", 9)],
  measurements({ rounds }) {
    const names = ["steps", "process", "all"].map((what) => `observability.${what}`);
    return [{ names, seconds: 12 + 3 * rounds, measure: () => shareRows(rounds) }];
  },
};

async function* shareRows(rounds: number) {
  await using collector = await startCollector();
  const watched = await watchedRun(collector.endpoint);
  const { times } = watched;
  const stepMs = times.stepMs * (times.shares.computing + times.shares.sendingIds);
  const trainingMs = devices * times.steps * stepMs;
  const steps = (await stepWorkMs(rounds)).map((ms) => ms / stepMs);
  yield { ...rowOf("steps", steps), times };
  const again = await watchAgain(watched, collector.endpoint, rounds);
  const others = again.map((ms) => ms / trainingMs);
  yield rowOf("process", others);
  const all = others.map((share) => share + quantiles(steps).median);
  const ratio = quantiles(all).median / bound;
  yield { ...rowOf("all", all), limit: 100 * bound, limitIs: "allowed", ratio };
}

function rowOf(name: string, shares: readonly number[]): BenchRow {
  const { median, spread } = quantiles(shares.map((share) => 100 * share));
  return { name: `observability.${name}`, figure: median, unit: "% of training", spread };
}

/** A collector on a thread of its own, which discards the spans. */
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

/** A job of configuration a that trains for some seconds. */
function jobIn(directory: string): JobOptions {
  return {
    model: configuration("a").model,
    data: {
      kind: "synthetic",
      samples: 409_600,
      dense: 13,
      batchSize: 2048,
      cache: join(directory, "cache"),
    },
    checkpoint: { directory: join(directory, "checkpoints"), everySteps: 100 },
  };
}

/** The observations and events of a run, and how long the run took. */
interface WatchedRun {
  readonly observations: readonly Observation[];
  readonly events: readonly RunEvent[];
  readonly times: StepTimes;
  readonly seconds: number;
}

async function watchedRun(endpoint: string): Promise<WatchedRun> {
  using home = temporaryHome("osiris-bench-");
  const observations: Observation[] = [];
  const tracing = { endpoint, everySteps };
  const launcher = noting((observation) => observations.push(observation));
  await using cluster = await Cluster.start({ devices, tracing, launcher });
  const run = await cluster.submit(jobIn(home.path));
  const events: RunEvent[] = [];
  let fromMs = performance.now();
  for await (const event of run.events()) {
    if (event.type === "run.started") fromMs = performance.now();
    events.push(event);
  }
  const seconds = (performance.now() - fromMs) / 1000;
  const { times } = await run.result();
  if (times === undefined) throw new RangeError(`Run ${run.run} has reported no times`);
  return { observations, events, times, seconds };
}

/** Real threads; `note` receives a copy of every observation. */
function noting(note: (observation: Observation) => void): Launcher {
  return {
    start<Command, Report>(entry: URL, data: unknown, name: string): Thread<Command, Report> {
      const thread = workerLauncher.start<Command, Report>(entry, data, name);
      return {
        ...thread,
        onObservation(receive) {
          thread.onObservation((observation) => {
            note(observation);
            receive(observation);
          });
        },
      };
    },
  };
}

/** Processor milliseconds of replaying the run's observations once, for each round. */
async function watchAgain(
  { observations, events, seconds }: WatchedRun,
  endpoint: string,
  rounds: number,
): Promise<number[]> {
  const tracing = { endpoint, everySteps };
  const log = { level: "debug", write: () => {} } as const;
  await using cluster = await Cluster.start({ devices: 0 });
  const { url: nats, token = "" } = cluster;
  await using exporter = await openExporter({ nats, token });
  const { transport } = cluster.network;
  const watchOnce = async () => {
    const observer = await openObserver({ log, tracing }, [], () => {});
    for (const observation of observations) observer.observe(observation);
    for (const event of events) {
      logEvent(observer.log, event);
      const { payload, headers } = encodeBody(event, "application/json");
      transport.publish(eventsSubject("c1", event.run), payload, { headers });
    }
    for (let second = 0; second < seconds; second++) await exporter.text();
    await observer.close();
    await transport.flush();
  };
  const msOf: number[] = [];
  for (let round = -1; round < rounds; round++) {
    const before = process.cpuUsage();
    for (let i = 0; i < timesOfRound; i++) await watchOnce();
    const { user, system } = process.cpuUsage(before);
    if (round >= 0) msOf.push((user + system) / 1000 / timesOfRound); // Round -1 warms up.
  }
  return msOf;
}

const timesOfRound = 20;
const stepsOfRound = 20_000;

/** Milliseconds that the meter and the trace take for a step, for each round. */
async function stepWorkMs(rounds: number): Promise<number[]> {
  const words = new BigInt64Array(new SharedArrayBuffer(8 * meterWords));
  const flights = openFlightWaits(new SharedArrayBuffer(flightBytes));
  const timeline = openTimeline(new SharedArrayBuffer(timelineBytes(2048)), 0, 2048);
  let calls = 0;
  // Each wait seems long enough to be noted in the timeline.
  const clock = { ...realClock, now: () => realClock.now() + 0.03 * calls++ };
  const meter = createStepMeter(words, clock, { flights, timeline });
  const trace = createStepTrace({
    ...{ everySteps, clock: realClock, timeline },
    report: (traced) => void structuredClone(traced),
  });
  const openCells: Cells = { load: () => 0, store() {}, waitUntil: async () => {} };
  const waits = waitedFor
    .filter((what) => what !== "checkpoint")
    .map((what) => meter.cellsFor(what, openCells));
  const column = new Float64Array(new SharedArrayBuffer(8 * columnWords * cachedTables));
  const counts = { distinct: 9, missed: 3, conflicts: 1, left: 2 };
  const caches = Array.from({ length: cachedTables }, () => ({ counts, cache: { rowOf: [] } }));
  const msOf: number[] = [];
  let step = 0;
  for (let round = 0; round < rounds; round++) {
    const fromMs = performance.now();
    for (let i = 0; i < stepsOfRound; i++, step++) {
      meter.begin(3);
      trace.begin();
      await meter.exchangeInput(async () => trace.enter(step + 1, "ids"));
      for (const task of stepTasks) trace.enter(step, task);
      for (const wait of waits) {
        await wait.waitUntil(nothing, yes, 0);
        await wait.waitUntil(nothing, yes, 0);
      }
      trace.end(step);
      meter.end();
      writeHbm(column, caches);
    }
    msOf.push((performance.now() - fromMs) / stepsOfRound);
  }
  return msOf;
}

/** Configuration a caches no table: its 26 tables are metered as if all were cached. */
const cachedTables = 26;

const nothing = () => "nothing";
const yes = () => true;
