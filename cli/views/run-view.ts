// Views of a run in progress: a progress bar on a terminal, plain lines otherwise, or its events as
// JSON.

import { MultiBar, type SingleBar } from "cli-progress";
import { damagedLine } from "../../actors/observe/event-lines.ts";
import {
  type ErrorRecord,
  RemoteError,
  type Run,
  type RunEvent,
  type RunResult,
} from "../../internal.ts";
import { sharingOf } from "../../src/data/columnar/value-watch.ts";
import { count, duration, metric, plural } from "../support/format.ts";
import { figuresLine } from "./figures.ts";
import { lostLine } from "./incidents.ts";
import { planLine } from "./plan-report.ts";
import { repairedCounts, timeOf } from "./report.ts";

/** Shows a run's events, one by one, in their order. */
export interface RunView {
  show(event: RunEvent): void;
  /** Prints a line between the events. */
  say(line: string): void;
  /** Restores the terminal. Safe to call twice. */
  close(): void;
}

/** The view for the output: JSON with `--json`, a bar on a terminal, else plain lines. */
export function openView(options: { readonly json: boolean }): RunView {
  if (options.json) return jsonView();
  return process.stdout.isTTY ? barView() : linesView((line) => console.log(line));
}

/** The same view; `see` receives each event before the view shows it. */
export function watched(view: RunView, see: (event: RunEvent) => void): RunView {
  return {
    ...view,
    show(event) {
      see(event);
      view.show(event);
    },
  };
}

/** Every event as one line of JSON on stdout; other lines go to stderr. */
function jsonView(): RunView {
  return {
    show: (event) => console.log(JSON.stringify(event)),
    say: (line) => console.error(line),
    close() {},
  };
}

/** Longest time between two lines of progress. */
const lineEveryMs = 10_000;

/** A line for each event, and for each tenth of the steps. */
export function linesView(say: (line: string) => void): RunView {
  const nextLine = linesOf();
  let tenth = 0;
  let printedAtMs = 0;
  return {
    show(event) {
      if (event.type === "run.progress") {
        const nowTenth = Math.floor((10 * event.step) / event.steps);
        if (nowTenth === tenth && performance.now() - printedAtMs < lineEveryMs) return;
        tenth = nowTenth;
        printedAtMs = performance.now();
        const { step, steps, loss, samplesPerSecond } = event;
        say(
          `  step ${count(step)} of ${count(steps)} · loss ${metric(loss)} · ` +
            `${count(samplesPerSecond)} samples/s · ${duration(event.secondsLeft ?? Number.NaN)} left` +
            repairedSoFar(event) +
            (event.times === undefined ? "" : ` · ${timeOf(event.times)}`),
        );
        return;
      }
      if (event.type === "run.started") printedAtMs = performance.now();
      const line = nextLine(event);
      if (line !== undefined) say(line);
    },
    say,
    close() {},
  };
}

/** Most losses behind the sparkline of `curveWidth` columns: four minutes at four a second. */
const curveTellsMax = 960;
const curveWidth = 16;

/** A progress bar at the bottom of the terminal, and lines above it. */
function barView(): RunView {
  const nextLine = linesOf();
  const format =
    "  {bar} {percentage}% · step {value} of {total} · loss {loss} {curve} · {speed} samples/s · {left} left{repaired}";
  const bars = new MultiBar({
    format,
    barCompleteChar: "█",
    barIncompleteChar: "░",
    barsize: 24,
    clearOnComplete: true,
    forceRedraw: true,
    stream: process.stdout,
  });
  let bar: SingleBar | undefined;
  const losses: number[] = [];
  let isClosed = false;
  const say = (line: string) => {
    if (bar === undefined || isClosed) console.log(line);
    else bars.log(`${line}\n`);
  };
  return {
    show(event) {
      if (event.type === "run.progress") {
        const { step, steps, loss, samplesPerSecond } = event;
        losses.push(loss);
        if (losses.length > curveTellsMax) losses.shift();
        const fields = {
          loss: metric(loss),
          curve: sparkline(losses, curveWidth),
          speed: count(samplesPerSecond),
          left: duration(event.secondsLeft ?? Number.NaN),
          repaired: repairedSoFar(event),
        };
        bar ??= bars.create(steps, step, fields);
        bar.update(step, fields);
        return;
      }
      const line = nextLine(event);
      if (line !== undefined) say(line);
    },
    say,
    close: () => {
      if (!isClosed) bars.stop();
      isClosed = true;
    },
  };
}

/** Suffix of a line of progress: the ids that were clamped or hashed so far, if any. */
function repairedSoFar({ repairedIds }: Extract<RunEvent, { type: "run.progress" }>): string {
  return repairedIds.length === 0 ? "" : ` · repaired ids: ${repairedCounts(repairedIds)}`;
}

/** Makes the line of an event for people; undefined for events that the bar or the report show. */
function linesOf(): (event: RunEvent) => string | undefined {
  let isBegun = false; // A later generation prepares the same data: printed once.
  let isNoticed = false; // The notice of slow kernels is printed once.
  return (event) => {
    if (event.type === "run.queued") isBegun = false;
    if (event.type === "run.prepared") {
      if (isBegun) return undefined;
      isBegun = true;
    }
    const line = lineOf(event);
    if (event.type !== "run.started" || event.notice === undefined || isNoticed) return line;
    isNoticed = true;
    return `${event.notice}\n${line}`;
  };
}

function lineOf(event: RunEvent): string | undefined {
  switch (event.type) {
    case "run.waiting":
      return `Waiting for ${plural(event.wanted, "device")}, ${event.devices} are there`;
    case "run.prepared":
      return preparedLine(event);
    case "run.damaged":
      return `  ! ${damagedLine(event)}`;
    case "run.cache":
      return `  ! the data cache ${event.path} was damaged (${event.reason}): made again`;
    case "run.started":
      return startedLines(event);
    case "run.evaluated":
      return `  step ${count(event.step)} · ${figuresLine(event.metrics, " · ")}`;
    case "run.incident":
      return incidentLine(event.offender, event.error);
    case "run.alert":
    case "run.tier":
      return `  ! ${event.message}`;
    case "run.link":
      return linkLine(event);
    case "run.durable":
      return durableLine(event);
    case "run.recovered": {
      const { fromStep, generation, seconds, memoryBytes, storeBytes } = event;
      const from = memoryBytes > 0 && storeBytes === 0 ? ", out of the memory of its hosts" : "";
      return (
        `  recovered in ${duration(seconds)}: generation ${generation} ` +
        `continued from step ${count(fromStep)}${from}`
      );
    }
    case "run.partial": {
      const { step, fromStep, devices, rows, samples, pls } = event;
      const names = devices.map((device) => `device:${device}`).join(", ") || "no device";
      return (
        `  continues from step ${count(step)}; ${plural(rows, "row")} of ${names} went back to step ` +
        `${count(fromStep)}: ${plural(samples, "sample")} lost there (PLS ${pls.toFixed(5)})`
      );
    }
    case "run.lost":
      return lostLine(event);
    case "run.straggler": {
      const name = `device:${event.device} of host:${event.host}`;
      return `  ! ${name} computes a step ${event.factor.toFixed(1)} times as long as the others do`;
    }
    case "run.draining":
      return `  ! host:${event.host} leaves within ${duration(event.seconds)}: ${event.reason}`;
    case "run.scaled":
    case "run.moved":
    case "run.replanned":
    case "run.adapted":
      return placesLine(event);
    case "run.limited":
    case "run.drained":
      return readerLine(event);
    case "run.paused":
      return `  paused at step ${count(event.step)}; \`osiris resume ${event.run}\` continues the run`;
    case "run.preempted":
      return `  preempted by run ${event.by}; continues from step ${count(event.step)} after that run`;
    case "run.resumed":
      return "  resumed";
    case "run.renumbered":
      return `  a new leader continues the run; events ${event.last + 1} to ${event.first - 1} do not exist`;
    case "run.queued":
    case "run.preparing":
    case "run.progress":
    case "run.workers":
    case "run.checkpointed":
    case "run.buddies":
    case "run.finished":
    case "run.failed":
      return undefined;
    default:
      return event satisfies never;
  }
}

/** The line of a change of placement, and its reason. */
function placesLine(
  event: Extract<RunEvent, { type: "run.scaled" | "run.moved" | "run.replanned" | "run.adapted" }>,
): string | undefined {
  switch (event.type) {
    case "run.scaled": {
      const { from, to, step, seconds } = event;
      const devices = from === to ? plural(to, "device") : `${from} → ${plural(to, "device")}`;
      return `  scaled in ${duration(seconds)}: ${devices} from step ${count(step)} on`;
    }
    case "run.moved": {
      const { shards, step, seconds } = event;
      const places = shards.map(({ table, device: to }) => `${table} to device:${to}`).join(", ");
      return `  moved in ${duration(seconds)}: of ${places} from step ${count(step)} on`;
    }
    case "run.replanned": {
      const { gain, savesSeconds, moveSeconds, isTaken } = event;
      const saves = `another plan saves ${(100 * gain).toFixed(0)} % of a step`;
      const pays = `${duration(savesSeconds)} in all, for a move of ${duration(moveSeconds)}`;
      return isTaken ? `  ${saves}, ${pays}: the run changes to it` : undefined;
    }
    case "run.adapted": {
      const { step, seconds } = event;
      return `  continues with another plan, after ${duration(seconds)}, from step ${count(step)} on`;
    }
    default:
      return event satisfies never;
  }
}

function linkLine({ direct, broker, reasons }: Extract<RunEvent, { type: "run.link" }>): string {
  if (broker === 0) return `  frames between hosts: ${plural(direct, "direct link")}`;
  const [first] = reasons;
  const why = first === undefined ? "" : ` (${first.from} to ${first.to}: ${first.reason})`;
  return `  ! frames of ${broker} of ${plural(direct + broker, "link")} travel over the broker${why}`;
}

function durableLine(event: Extract<RunEvent, { type: "run.durable" }>): string {
  const { device, action, rows, reason } = event;
  if (reason !== undefined) return `  no durable rows ${action} below device ${device}: ${reason}`;
  return `  ${plural(rows, "durable row")} ${action} below device ${device}`;
}

function readerLine(event: Extract<RunEvent, { type: "run.limited" | "run.drained" }>): string {
  if (event.type === "run.limited") {
    const { samplesPerSecond } = event;
    if (samplesPerSecond === 0) return "  readers have no limit any more";
    return `  readers are limited to ${count(samplesPerSecond)} samples/s`;
  }
  const { reader, isForced, step } = event;
  const how = isForced ? "was ended, as it did not finish its batch" : "has ended";
  return `  the thread of reader:${reader} ${how}; a new thread continues from step ${count(step)}`;
}

function startedLines(event: Extract<RunEvent, { type: "run.started" }>): string {
  const { devices, hosts, arithmetic, fromStep, steps, pins = [] } = event;
  const from = fromStep > 0 ? `, going on from step ${count(fromStep)}` : "";
  const spread = hosts.length > 1 ? ` of ${hosts.length} hosts` : "";
  const place = `${plural(devices, "device")}${spread} (${arithmetic})`;
  const { way, reason } = event.links ?? {};
  const links = way === undefined ? "" : `\n  frames between hosts: ${way}, ${reason}`;
  const plan = planLine(event.plan);
  const begun = `Training on ${place}, ${count(steps)} steps${from}${plan && `\n${plan}`}${links}`;
  const ignored = pins.flatMap(({ table, device, reason }) =>
    reason === undefined
      ? []
      : [`  ! the pin of ${table} to device:${device} is not followed: ${reason}`],
  );
  return [begun, ...ignored].join("\n");
}

function preparedLine(event: Extract<RunEvent, { type: "run.prepared" }>): string {
  const warnings = event.warnings.map(({ message }) => `\n  ! ${message}`);
  return [samplesLine(event), ...valuesLines(event), ...ikjtLines(event), ...warnings].join("");
}

/** Most hashed columns with a line each. */
const valuesMax = 8;

/** How many values of hashed columns share rows with others, the largest share first. */
function valuesLines({ values = [] }: Extract<RunEvent, { type: "run.prepared" }>): string[] {
  const sorted = [...values].sort((a, b) => b.shared / b.values - a.shared / a.values);
  const lines = sorted.slice(0, valuesMax).map((own) => `\n  ${own.column}: ${sharingOf(own)}`);
  const rest = sorted.length - lines.length;
  return rest > 0 ? [...lines, `\n  and ${plural(rest, "more hashed column")}`] : lines;
}

/** A line for each group of lists: deduplicated, or left as it is. */
function ikjtLines({ ikjt = [] }: Extract<RunEvent, { type: "run.prepared" }>): string[] {
  return ikjt.map(({ features, factor, isChosen }) => {
    const times = `${factor.toFixed(2)} lists for each distinct one`;
    return `\n  ${features.join(", ")}: ${times}; ${isChosen ? "deduplicated" : "left as they are"}`;
  });
}

function samplesLine(event: Extract<RunEvent, { type: "run.prepared" }>): string {
  const { samples, heldOut, test = 0, quarantined, quarantine, bestAuc, bestRmse } = event;
  const held = heldOut > 0 ? `, ${count(heldOut)} held out` : "";
  const tested = test > 0 ? `, ${count(test)} for the test` : "";
  const reachable = bestRmse === undefined ? `AUC ${metric(bestAuc)}` : `RMSE ${metric(bestRmse)}`;
  const best = (bestAuc ?? bestRmse) === undefined ? "" : `; best reachable ${reachable}`;
  const line = `Data: ${count(samples)} training samples${held}${tested}${best}`;
  const [first] = quarantine;
  if (first === undefined) return line;
  const { file, line: at, rowGroup, recordBatch } = first;
  const isLine = (rowGroup ?? recordBatch) === undefined;
  const piece = rowGroup === undefined ? `record batch ${recordBatch}` : `row group ${rowGroup}`;
  const place = isLine ? `${file}:${at}` : `${file}, ${piece}, row ${at}`;
  const bad = plural(quarantined, isLine ? "bad line" : "bad row");
  return `${line}\n  ${bad} left out; the first: ${place}: ${first.reason}`;
}

/** A failure that the run survives. The error that ends a run is printed at its end. */
function incidentLine(offender: string, error: ErrorRecord): string | undefined {
  const { recovery, code, message } = error;
  const isSurvived =
    recovery === "restore" || code === "CHECKPOINT_CORRUPT" || code === "GENERATION_FENCED";
  return isSurvived ? `  ! ${offender} failed: ${message}` : undefined;
}

/**
 * Shows all events of a run; returns its result. The view stays open.
 * @throws RemoteError with the run's own code, where it failed
 */
export async function follow(run: Run, view: RunView): Promise<RunResult> {
  let last: RunEvent | undefined;
  const onSilence = (sentence: string) => view.say(`  ! ${sentence}`);
  for await (const event of run.events({ onSilence })) {
    view.show(event);
    last = event;
  }
  if (last?.type === "run.finished") return last.result;
  if (last?.type === "run.failed") throw new RemoteError(last.error);
  throw new TypeError(`The events of run ${run.run} ended without a result`);
}

const heights = "▁▂▃▄▅▆▇█";

/**
 * A curve in at most `width` columns, each the mean of equally many values, drawn as a block from
 * the lowest to the highest. Values that are not finite are left out.
 */
export function sparkline(values: readonly number[], width: number): string {
  const known = values.filter(Number.isFinite);
  if (known.length < 2) return "";
  const columns = Math.min(width, known.length);
  const means = Array.from({ length: columns }, (_, at) => {
    const from = Math.floor((at * known.length) / columns);
    const own = known.slice(from, Math.floor(((at + 1) * known.length) / columns));
    return own.reduce((sum, value) => sum + value, 0) / own.length;
  });
  const [least, most] = [Math.min(...means), Math.max(...means)];
  return means
    .map((value) => {
      const share = most > least ? (value - least) / (most - least) : 0;
      return heights[Math.min(heights.length - 1, Math.floor(share * heights.length))];
    })
    .join("");
}
