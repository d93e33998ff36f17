// Question: does the dashboard's page stay fluid, and what does it cost a cluster?
//
// `packed`: compressed size of the page's files. `task`, `frame`, `idle`, `heap`: a real browser
// shows a cluster of 128 devices and 5,000 tables whose run publishes 100,000 events in some 20 s.
// `task`: the longest processor time of one task of the page's main thread, view by view, during
// which no frame can appear. `frame`: the longest time between two frames, which includes other
// programs on the cores; `idle`: the same for an empty page. `heap`: the page's memory after all
// events. `tabs`: processor time of a cluster's main thread that ten tabs add while a run publishes
// four events a second, as a share of training with a core for each device. The run is throttled,
// so that its own work on the main thread, which varies with every other program, is small. The
// tabs run in another process.

import { spawn } from "node:child_process";
import { join } from "node:path";
import { chromium, type Page } from "playwright-core";
import { type Bench, positiveOption } from "../../../bench/bench.ts";
import { configuration } from "../../../bench/configurations.ts";
import { type BenchRow, quantileOf, quantiles } from "../../../bench/row.ts";
import { browserFlags, browserPath } from "../../../cli/support/browser.ts";
import { Cluster, InputUnusableError, temporaryHome } from "../../../internal.ts";
import { processorMs } from "../../../src/ports/processor-time.ts";
import { dashboard } from "../index.ts";
import { pageFileNames, readPageFile } from "../server/page-files.ts";
import { type LargeCluster, openLargeCluster } from "./large-cluster.ts";

interface PageBenchOptions {
  /** Events that the large cluster publishes. */
  readonly events: number;
  /** Rounds; each has a window without tabs, two with tabs, and another without. */
  readonly rounds: number;
}

/** The views in their order. The run's view comes last: it requests all events published so far. */
const views = ["tree", "plan", "runs", "run"];
const tabs = 10;
const windowMs = 3000;
/** More than the events that a run publishes: four a second. */
const stepsASecond = 8;
/** Time after which opened tabs have received the whole state. */
const settleMs = 500;
const idleMs = 5000;
/** Interval at which the large cluster publishes events. */
const tellEveryMs = 50;
const eventsASecond = 5000;

export const pageBench: Bench<PageBenchOptions> = {
  question: "frames of the dashboard's page, and what ten tabs cost a cluster",
  options: [
    positiveOption("--events <count>", "events of the large cluster", 1e5),
    positiveOption("--rounds <count>", "windows with tabs and without", 20),
  ],
  measurements({ events, rounds }) {
    const frames = ["idle", ...views].flatMap((view) => {
      return [`dashboard.task.${view}`, `dashboard.frame.${view}`].slice(view === "idle" ? 1 : 0);
    });
    const seconds = ((4 * windowMs + settleMs) * rounds) / 1000 + 20;
    return [
      { names: ["dashboard.packed"], seconds: 1, measure: packedRow },
      {
        names: [...frames, "dashboard.heap"],
        seconds: 10 + events / eventsASecond,
        measure: () => frameRows(events),
      },
      { names: ["dashboard.tabs"], seconds, measure: () => tabsRow(rounds) },
    ];
  },
};

async function* packedRow() {
  const bytes = pageFileNames.reduce((sum, name) => sum + readPageFile(name).packed.length, 0);
  yield limited("packed", "kB", [bytes / 1000], 200);
}

function limited(name: string, unit: string, values: readonly number[], limit: number): BenchRow {
  const { median, spread } = quantiles(values);
  const bound = { limit, limitIs: "allowed", ratio: median / limit };
  return { name: `dashboard.${name}`, figure: median, unit, spread, ...bound };
}

async function* frameRows(events: number) {
  const executablePath = browserPath();
  if (executablePath === undefined) {
    throw new InputUnusableError("chromium", "There is no Chromium on the PATH: install it");
  }
  const browser = await chromium.launch({ executablePath, args: [...browserFlags] });
  const large = await openLargeCluster();
  try {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    await page.evaluate(watchFrames); // An empty page: the machine's own pauses.
    await pause(idleMs);
    yield frameRow("idle", await page.evaluate<number[]>("globalThis.frameGaps"));
    await page.goto(large.dashboard.url);
    await page.waitForSelector("tbody th a");
    for (const view of views) {
      await browser.startTracing(page, { categories: ["toplevel"] });
      const gaps = await framesOf(page, view, large, events / views.length);
      yield limited(`task.${view}`, "ms", [longestTaskMs(await browser.stopTracing())], 50);
      yield frameRow(view, gaps);
    }
    const session = await page.context().newCDPSession(page);
    await session.send("HeapProfiler.collectGarbage");
    const heap = await session.send("Runtime.getHeapUsage");
    const figure = heap.usedSize / 1e6;
    yield { name: "dashboard.heap", figure, unit: "MB", spread: [figure, figure] as const };
  } finally {
    await browser.close();
    await large.dashboard.close();
  }
}

/** The longest processor time of one task of the page's main thread in a trace. */
function longestTaskMs(trace: Buffer): number {
  const { traceEvents } = JSON.parse(trace.toString("utf8")) as { traceEvents: TraceEvent[] };
  const main = new Set(
    traceEvents
      .filter(({ args }) => args?.name === "CrRendererMain")
      .map(({ pid, tid }) => `${pid} ${tid}`),
  );
  const mainEvents = traceEvents.filter(({ pid, tid }) => main.has(`${pid} ${tid}`));
  return mainEvents.reduce((most, { tdur = 0 }) => Math.max(most, tdur / 1000), 0);
}

interface TraceEvent {
  readonly pid: number;
  readonly tid: number;
  /** Processor time in microseconds. */
  readonly tdur?: number;
  readonly args?: { readonly name?: string };
}

/** The longest time between two frames; the spread is the median and the 99th percentile. */
function frameRow(view: string, gaps: readonly number[]): BenchRow {
  const at = quantileOf(gaps);
  const row = { name: `dashboard.frame.${view}`, figure: at(1), unit: "ms at most" };
  return { ...row, spread: [at(0.5), at(0.99)], limit: 50, limitIs: "allowed", ratio: at(1) / 50 };
}

/** Milliseconds between frames of a view while events arrive. */
async function framesOf(page: Page, view: string, large: LargeCluster, events: number) {
  await page.click(`nav a[href^="#/${view}/"], nav a[href="#/${view}"]`);
  await page.waitForSelector("main h2");
  await page.evaluate(watchFrames);
  const some = (eventsASecond * tellEveryMs) / 1000;
  for (let published = 0; published < events; published += some) {
    large.tell(some);
    await pause(tellEveryMs);
  }
  return await page.evaluate<number[]>("globalThis.frameGaps");
}

/** Script that runs in the page, and records the times between frames. */
const watchFrames = `(() => {
  const gaps = [];
  globalThis.frameGaps = gaps;
  let last = performance.now();
  const tick = (now) => {
    if (globalThis.frameGaps !== gaps) return;
    gaps.push(now - last);
    last = now;
    requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
})()`;

async function* tabsRow(rounds: number) {
  using home = temporaryHome("osiris-page-bench-");
  const devices = 2;
  await using cluster = await Cluster.start({ devices, dashboard: dashboard() });
  const run = await cluster.submit({
    model: configuration("a").model,
    data: {
      ...{ kind: "synthetic", samples: 51_200, dense: 13, batchSize: 256, epochs: 10_000 },
      cache: join(home.path, "cache"),
    },
    checkpoint: { directory: join(home.path, "checkpoints") },
  });
  for await (const event of run.events()) if (event.type === "run.progress") break;
  await run.limitReaders({ samplesPerSecond: 256 * stepsASecond });
  await pause(idleMs); // Batches that are already read are trained first.
  const shares: number[] = [];
  for (let round = 0; round < rounds; round++) {
    // The order is without, with, with, without tabs, so that a drift affects both sums equally.
    const before = await busyIn(windowMs);
    const child = openTabs(cluster.dashboard?.url ?? "");
    while ((cluster.dashboard?.tabs ?? 0) < tabs) await pause(50);
    await pause(settleMs);
    const watched = await busyIn(2 * windowMs);
    child.kill();
    while ((cluster.dashboard?.tabs ?? 0) > 0) await pause(50);
    const after = await busyIn(windowMs);
    shares.push((100 * (watched - (before + after) / 2)) / devices);
  }
  yield limited("tabs", "% of training", shares, 0.5);
}

/** The share of a window of time in which the main thread used a processor. */
async function busyIn(ms: number): Promise<number> {
  const [main, beganMs] = [processorMs(), performance.now()];
  await pause(ms);
  return (processorMs() - main) / (performance.now() - beganMs);
}

/** Starts a process that reads the event streams as browser tabs do. */
function openTabs(url: string) {
  const code = `
    for (let tab = 0; tab < ${tabs}; tab++) {
      fetch("${url}api/stream").then(async ({ body }) => {
        for await (const chunk of body) void chunk;
      });
    }`;
  return spawn(process.execPath, ["-e", code], { stdio: "ignore" });
}

function pause(ms: number): Promise<void> {
  return new Promise((resume) => setTimeout(resume, ms));
}
