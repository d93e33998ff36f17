// What people and machines see of a run while it goes on: a progress bar on a terminal, plain lines
// otherwise, or its events as JSON.

import { MultiBar, type SingleBar } from "cli-progress";
import { damagedLine } from "../../actors/observe/event-lines.ts";
import type { ErrorRecord, RunEvent } from "../../internal.ts";
import { sharingOf } from "../../src/data/columnar/value-watch.ts";
import { count, duration, metric, plural } from "../support/format.ts";
import { figuresLine } from "./figures.ts";
import { planLine } from "./plan-line.ts";
import { repairedCounts, timeOf } from "./report.ts";
import { sparkline } from "./sparkline.ts";

/** Shows a run's events, one by one, in their order. */
export interface RunView {
  show(event: RunEvent): void;
  /** A line between the events. */
  say(line: string): void;
  /** Leaves the terminal as it was. Safe to call twice. */
  close(): void;
}

/** The view that fits: JSON where it is asked for, a bar on a terminal, else plain lines. */
export function openView(options: { readonly json: boolean }): RunView {
  if (options.json) return jsonView();
  return process.stdout.isTTY ? barView() : linesView((line) => console.log(line));
}

/** The same view; `see` is told of each event before it is shown. */
export function watched(view: RunView, see: (event: RunEvent) => void): RunView {
  return {
    ...view,
    show(event) {
      see(event);
      view.show(event);
    },
  };
}

/** Every event as one line of JSON; what else is said goes to stderr. */
function jsonView(): RunView {
  return {
    show: (event) => console.log(JSON.stringify(event)),
    say: (line) => console.error(line),
    close() {},
  };
}

/** How often a long run says how far it is. */
const lineEveryMs = 10_000;

/** A line for each event, and for each tenth of the way. */
export function linesView(say: (line: string) => void): RunView {
  const tell = linesOf();
  let tenth = 0;
  let saidAtMs = 0;
  return {
    show(event) {
      if (event.type === "run.progress") {
        const nowTenth = Math.floor((10 * event.step) / event.steps);
        if (nowTenth === tenth && performance.now() - saidAtMs < lineEveryMs) return;
        tenth = nowTenth;
        saidAtMs = performance.now();
        const { step, steps, loss, samplesPerSecond } = event;
        say(
          `  step ${count(step)} of ${count(steps)} · loss ${metric(loss)} · ` +
            `${count(samplesPerSecond)} samples/s · ${duration(secondsLeft(event))} left` +
            repairedSoFar(event) +
            (event.times === undefined ? "" : ` · ${timeOf(event.times)}`),
        );
        return;
      }
      if (event.type === "run.started") saidAtMs = performance.now();
      const line = tell(event);
      if (line !== undefined) say(line);
    },
    say,
    close() {},
  };
}

/** The loss of the last minutes, four times a second, in so many columns. */
const curveTellsMax = 960;
const curveWidth = 16;

/** A progress bar at the bottom of the terminal, and lines above it. */
function barView(): RunView {
  const tell = linesOf();
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
          left: duration(secondsLeft(event)),
          repaired: repairedSoFar(event),
        };
        bar ??= bars.create(steps, step, fields);
        bar.update(step, fields);
        return;
      }
      const line = tell(event);
      if (line !== undefined) say(line);
    },
    say,
    close: () => {
      if (!isClosed) bars.stop();
      isClosed = true;
    },
  };
}

/** Behind a line of progress: ids that were clamped or hashed so far, where there are any. */
function repairedSoFar({ repairedIds }: Extract<RunEvent, { type: "run.progress" }>): string {
  return repairedIds.length === 0 ? "" : ` · repaired ids: ${repairedCounts(repairedIds)}`;
}

/** The time left of a run, by the time of its steps; also for a late follower. */
function secondsLeft({ step, steps, times }: Extract<RunEvent, { type: "run.progress" }>): number {
  return ((times?.stepMs ?? Number.NaN) / 1000) * (steps - step);
}

/** What people are told of each event, and nothing that the bar and the report show. */
function linesOf(): (event: RunEvent) => string | undefined {
  let isBegun = false; // A later generation finds the data that the first one found.
  let isNoticed = false; // Slow kernels are told of once.
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
      return `  ! the data cache ${event.path} was damaged (${event.reason}): made anew`;
    case "run.started":
      return startedLines(event);
    case "run.evaluated":
      return `  step ${count(event.step)} · ${figuresLine(event.metrics, " · ")}`;
    case "run.incident":
      return incidentLine(event.offender, event.error);
    case "run.alert":
    case "run.tier":
      return `  ! ${event.message}`;
    case "run.durable":
      return durableLine(event);
    case "run.recovered": {
      const { fromStep, generation, seconds, memoryBytes, storeBytes } = event;
      const from = memoryBytes > 0 && storeBytes === 0 ? ", out of the memory of its hosts" : "";
      return (
        `  recovered in ${duration(seconds)}: generation ${generation} ` +
        `went on from step ${count(fromStep)}${from}`
      );
    }
    case "run.partial": {
      const { step, fromStep, devices, rows, samples, pls } = event;
      const names = devices.map((device) => `device:${device}`).join(", ") || "no device";
      return (
        `  goes on from step ${count(step)}; of ${names} ${plural(rows, "row")} went back to step ` +
        `${count(fromStep)}: ${plural(samples, "sample")} lost there (PLS ${pls.toFixed(5)})`
      );
    }
    case "run.straggler": {
      const { device, host, factor } = event;
      const name = `device:${device} of host:${host}`;
      return `  ! ${name} computes a step ${factor.toFixed(1)} times as long as the others do`;
    }
    case "run.scaled":
    case "run.moved":
    case "run.replanned":
    case "run.adapted":
      return placesLine(event);
    case "run.limited":
    case "run.drained":
      return readerLine(event);
    case "run.paused":
      return `  paused at step ${count(event.step)}; \`osiris resume ${event.run}\` goes on from there`;
    case "run.preempted":
      return `  made room for run ${event.by}; goes on from step ${count(event.step)} when it is over`;
    case "run.resumed":
      return "  resumed";
    case "run.renumbered":
      return `  a new leader took the run up; events ${event.last + 1} to ${event.first - 1} are nobody's`;
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

/** Where rows lie from now on, and why. */
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
      return isTaken ? `  ${saves}, ${pays}: goes on with it` : undefined;
    }
    case "run.adapted": {
      const { step, seconds } = event;
      return `  goes on with another plan, after ${duration(seconds)}, from step ${count(step)} on`;
    }
    default:
      return event satisfies never;
  }
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
    return `  readers keep to ${count(samplesPerSecond)} samples/s`;
  }
  const { reader, isForced, step } = event;
  const how = isForced ? "was ended, as it did not come to the end of its batch" : "has ended";
  return `  the thread of reader:${reader} ${how}; another reads on from step ${count(step)}`;
}

function startedLines(event: Extract<RunEvent, { type: "run.started" }>): string {
  const { devices, hosts, arithmetic, fromStep, steps, pins = [] } = event;
  const from = fromStep > 0 ? `, going on from step ${count(fromStep)}` : "";
  const spread = hosts.length > 1 ? ` of ${hosts.length} hosts` : "";
  const place = `${plural(devices, "device")}${spread} (${arithmetic})`;
  const plan = planLine(event.plan);
  const begun = `Training on ${place}, ${count(steps)} steps${from}${plan && `\n${plan}`}`;
  const ignored = pins.flatMap(({ table, device, reason }) =>
    reason === undefined ? [] : [`  ! no shard of ${table} is held on device:${device}: ${reason}`],
  );
  return [begun, ...ignored].join("\n");
}

function preparedLine(event: Extract<RunEvent, { type: "run.prepared" }>): string {
  const warnings = event.warnings.map(({ message }) => `\n  ! ${message}`);
  return [samplesLine(event), ...valuesLines(event), ...ikjtLines(event), ...warnings].join("");
}

/** Columns whose values share rows, most of them first. */
const valuesMax = 8;

/** How many values share rows: of the columns of which most do. */
function valuesLines({ values = [] }: Extract<RunEvent, { type: "run.prepared" }>): string[] {
  const told = [...values].sort((a, b) => b.shared / b.values - a.shared / a.values);
  const lines = told.slice(0, valuesMax).map((own) => `\n  ${own.column}: ${sharingOf(own)}`);
  const rest = told.length - lines.length;
  return rest > 0 ? [...lines, `\n  and ${plural(rest, "more hashed column")}`] : lines;
}

/** What is deduplicated, and what would be if it repeated more. */
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

/** A failure that the run survives. The error that ends a run is told when the run ends. */
function incidentLine(offender: string, error: ErrorRecord): string | undefined {
  const { recovery, code, message } = error;
  const isSurvived =
    recovery === "restore" || code === "CHECKPOINT_CORRUPT" || code === "GENERATION_FENCED";
  return isSurvived ? `  ! ${offender} failed: ${message}` : undefined;
}
