// The timelines of a run as a trace for ui.perfetto.dev and chrome://tracing: the Trace Event
// Format, a JSON array. A host is a process; its devices, readers and writers are threads, and what
// its bridge sends and receives are rows by way, peer and channel. An arrow leads from what was
// sent to where it landed, and to the wait that it ended.
//
// Every host has a clock. The least time from the sending of a frame to its landing, both ways,
// gives the offset to the clock of the first host, as in NTP, and how precise it is.
//
// Invariants
//   C1. No duration is negative, and slices of one thread nest or lie apart.
//   C2. An arrow never points backwards in time.

import { flownChannels } from "../../src/exchange/flights.ts";
import { type WaitedFor, waitedFor, waitOf } from "../../src/training/meters/step-meter.ts";
import { stepTasks } from "../../src/training/step/step-graph.ts";
import type { PackedRecord } from "../host/kept-timelines.ts";
import type { RunTimelines } from "./run-timelines.ts";

/** How far the clock of a host is ahead of the first host's. */
export interface HostClock {
  readonly host: number;
  readonly offsetMs: number;
  /** Largest error of the offset; undefined: no frames were seen in both directions. */
  readonly precisionMs: number | undefined;
}

interface Slice {
  readonly name: string;
  readonly category: string;
  fromMs: number;
  toMs: number;
  readonly args: Readonly<Record<string, number | string>>;
  /** The kind of wait, or of the data that landed, by its name in the meters. */
  readonly waited?: WaitedFor;
  /** The round that was sent, or landed. */
  readonly round?: string;
}

/** A thread of the trace. */
interface Row {
  readonly host: number;
  readonly name: string;
  /** Rows are in this order. */
  readonly sort: number;
  readonly slices: Slice[];
}

/** The lines of the trace's file. */
export function* chromeTrace(timelines: RunTimelines): Generator<string> {
  const clocks = clocksOf(timelines);
  const rows = rowsOf(timelines, clocks).map((row, at) => ({ ...row, thread: at + 1 }));
  let originMs = Number.POSITIVE_INFINITY;
  for (const { slices } of rows) {
    for (const { fromMs } of slices) originMs = Math.min(originMs, fromMs);
  }
  let separator = "[\n";
  const line = (event: Readonly<Record<string, unknown>>) => {
    const text = separator + JSON.stringify(event);
    separator = ",\n";
    return text;
  };
  const micros = (ms: number) => Math.round(1000 * (ms - originMs));
  for (const clock of clocks) {
    for (const [name, args] of namesOf(timelines, clock)) {
      yield line({ ph: "M", name, pid: clock.host, tid: 0, args });
    }
  }
  for (const { host, thread, name, sort, slices } of rows) {
    yield line({ ph: "M", name: "thread_name", pid: host, tid: thread, args: { name } });
    const order = { sort_index: sort };
    yield line({ ph: "M", name: "thread_sort_index", pid: host, tid: thread, args: order });
    for (const slice of slices) {
      const { name: of, category: cat, args } = slice;
      const ts = micros(slice.fromMs);
      const dur = Math.max(0, micros(slice.toMs) - ts); // C1
      yield line({ ph: "X", name: of, cat, pid: host, tid: thread, ts, dur, args });
    }
  }
  for (const [id, arrow] of arrowsOf(rows).entries()) {
    let ts = 0;
    for (const [at, { host, thread, atMs }] of arrow.entries()) {
      const ph = at === 0 ? "s" : at === arrow.length - 1 ? "f" : "t";
      ts = Math.max(ts, micros(atMs)); // C2
      const ends = ph === "s" ? {} : { bp: "e" };
      yield line({ ph, name: "round", cat: "flow", id, pid: host, tid: thread, ts, ...ends });
    }
  }
  yield separator === "[\n" ? "[]\n" : "\n]\n";
}

function namesOf({ run, generation, fromStep, toStep }: RunTimelines, clock: HostClock) {
  const { host, offsetMs, precisionMs } = clock;
  const aligned =
    precisionMs === undefined
      ? "clock not aligned"
      : `clock ${offsetMs.toFixed(3)} ms ahead, ± ${precisionMs.toFixed(3)} ms`;
  const what = `run ${run}, generation ${generation}, steps ${fromStep} to ${toStep}`;
  return [
    ["process_name", { name: `host:${host}` }],
    ["process_labels", { labels: `${what}; ${aligned}` }],
    ["process_sort_index", { sort_index: host }],
  ] as const;
}

/** The clock of each host. The offset to the first host is half the difference of the two ways. */
export function clocksOf({ hosts, threads }: RunTimelines): HostClock[] {
  /** When the pieces of each round were handed over, by sender. */
  const sent = new Map<string, number>();
  const bridges = threads.filter(({ actor }) => actor.startsWith("bridge:"));
  for (const { host, records } of bridges) {
    for (const [kind, , step, , toMs, , peer, id] of records) {
      if (kind.startsWith("sent")) sent.set(`${host} ${hosts[peer]} ${id} ${step}`, toMs);
    }
  }
  const least = new Map<string, number>();
  for (const { host, records } of bridges) {
    for (const [kind, , step, , toMs, , peer, id] of records) {
      if (!kind.startsWith("landed")) continue;
      const atMs = sent.get(`${hosts[peer]} ${host} ${id} ${step}`);
      const way = `${hosts[peer]} ${host}`;
      if (atMs !== undefined) least.set(way, Math.min(least.get(way) ?? Infinity, toMs - atMs));
    }
  }
  const [first] = hosts;
  return hosts.map((host) => {
    if (host === first) return { host, offsetMs: 0, precisionMs: 0 };
    const [there, back] = [least.get(`${first} ${host}`), least.get(`${host} ${first}`)];
    if (there === undefined || back === undefined) {
      return { host, offsetMs: 0, precisionMs: undefined };
    }
    return { host, offsetMs: (there - back) / 2, precisionMs: Math.max(0, (there + back) / 2) };
  });
}

function rowsOf({ threads, hosts }: RunTimelines, clocks: readonly HostClock[]): Row[] {
  const offsets = new Map(clocks.map(({ host, offsetMs }) => [host, offsetMs]));
  return threads.flatMap(({ host, actor, records }) => {
    const offsetMs = offsets.get(host) ?? 0;
    const slices = records.map((record) => sliceOf(record, { host, hosts, offsetMs }));
    const [role = "", index = "0"] = actor.split(":");
    const order = 1000 * Math.max(0, ["device", "reader", "writer"].indexOf(role));
    if (role !== "bridge") {
      return [{ host, name: actor, sort: order + Number(index), slices: nested(slices) }];
    }
    const byRow = new Map<string, Slice[]>();
    for (const [at, [kind, what, , , , , peer]] of records.entries()) {
      const slice = slices[at];
      if (slice === undefined) continue;
      const way = kind.endsWith("Direct") ? "direct" : "broker";
      const arrow = kind.startsWith("sent") ? "to" : "from";
      const name = `bridge ${arrow} host:${hosts[peer]} ${flownChannels[what]} (${way})`;
      byRow.set(name, [...(byRow.get(name) ?? []), slice]);
    }
    return [...byRow]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .flatMap(([name, own]) =>
        lanesOf(own).map((lane) => ({ host, name, sort: 9000, slices: lane })),
      );
  });
}

function sliceOf(
  [kind, what, step, fromMs, toMs, bytes, peer, id]: PackedRecord,
  at: { readonly host: number; readonly hosts: readonly number[]; readonly offsetMs: number },
): Slice {
  const { offsetMs } = at;
  const times = { fromMs: fromMs - offsetMs, toMs: Math.max(fromMs, toMs) - offsetMs };
  switch (kind) {
    case "task":
      return { ...times, name: stepTasks[what] ?? "", category: "task", args: { step } };
    case "wait": {
      const waited = waitedFor[what] ?? "batch";
      return { ...times, name: `wait ${waited}`, category: "wait", args: {}, waited };
    }
    case "read":
      return { ...times, name: "read", category: "read", args: { step } };
    case "write":
      return { ...times, name: "write part", category: "write", args: { cut: step, bytes } };
    case "sent":
    case "sentDirect":
    case "landed":
    case "landedDirect": {
      const channel = flownChannels[what] ?? "ids";
      const waited = waitOf(channel);
      const category = kind.startsWith("sent") ? "sent" : "landed";
      const way = kind.endsWith("Direct") ? "direct" : "broker";
      const args = { channel, bytes, round: step, way };
      const [from, to] = kind.startsWith("sent")
        ? [at.host, at.hosts[peer]]
        : [at.hosts[peer], at.host];
      return {
        ...times,
        name: channel,
        category,
        args,
        waited,
        round: `${from} ${to} ${id} ${step}`,
      };
    }
    default:
      return kind satisfies never;
  }
}

/** C1. The slices in order. A wait lies within its task: both have times of their own. */
function nested(slices: readonly Slice[]): Slice[] {
  const tasks = slices.filter(({ category }) => category === "task");
  tasks.sort((a, b) => a.fromMs - b.fromMs);
  const others = slices.filter(({ category }) => category !== "task");
  others.sort((a, b) => a.fromMs - b.fromMs);
  let at = 0;
  let lastMs = Number.NEGATIVE_INFINITY;
  for (const slice of others) {
    const middleMs = (slice.fromMs + slice.toMs) / 2;
    while (at + 1 < tasks.length && (tasks[at + 1]?.fromMs ?? 0) <= middleMs) at++;
    const task = tasks[at];
    slice.fromMs = Math.max(slice.fromMs, lastMs);
    if (task !== undefined && task.fromMs <= middleMs && middleMs < task.toMs) {
      slice.fromMs = Math.max(slice.fromMs, task.fromMs);
      slice.toMs = Math.min(slice.toMs, task.toMs);
    }
    lastMs = slice.toMs;
  }
  return [...tasks, ...others].sort((a, b) => a.fromMs - b.fromMs || b.toMs - a.toMs);
}

/** C1. Divides overlapping slices among as few rows as possible. */
function lanesOf(slices: readonly Slice[]): Slice[][] {
  const lanes: Slice[][] = [];
  for (const slice of [...slices].sort((a, b) => a.fromMs - b.fromMs)) {
    const lane = lanes.find((one) => (one.at(-1)?.toMs ?? 0) <= slice.fromMs);
    if (lane === undefined) lanes.push([slice]);
    else lane.push(slice);
  }
  return lanes;
}

interface ArrowEnd {
  readonly host: number;
  readonly thread: number;
  readonly atMs: number;
}

/** Arrows from each sending of a round to its landing, and to the device's wait that it ended. */
function arrowsOf(rows: readonly (Row & { readonly thread: number })[]): ArrowEnd[][] {
  const sent = new Map<string, ArrowEnd>();
  const waits = new Map<string, (ArrowEnd & { readonly fromMs: number })[]>();
  for (const { host, thread, slices } of rows) {
    for (const { category, fromMs, toMs, round = "", waited } of slices) {
      if (category === "sent" && !sent.has(round)) sent.set(round, { host, thread, atMs: fromMs });
      if (category !== "wait") continue;
      const key = `${host} ${waited}`;
      const own = waits.get(key) ?? [];
      waits.set(key, own);
      own.push({ host, thread, fromMs, atMs: toMs });
    }
  }
  const arrows: ArrowEnd[][] = [];
  for (const { host, thread, slices } of rows) {
    for (const { category, toMs, round = "", waited } of slices) {
      const start = category === "landed" ? sent.get(round) : undefined;
      if (start === undefined) continue;
      const own = waits.get(`${host} ${waited}`);
      const ended = own?.find((wait) => wait.fromMs <= toMs && toMs <= wait.atMs);
      arrows.push([start, { host, thread, atMs: toMs }, ...(ended === undefined ? [] : [ended])]);
    }
  }
  return arrows;
}
