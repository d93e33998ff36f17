// The state of a cluster, as lines for people.

import type {
  ActorReport,
  CacheReport,
  ClusterReport,
  ProcessReport,
  RunReport,
  ShardReport,
  TierReport,
} from "../../internal.ts";
import {
  aligned,
  bytes,
  count,
  duration,
  metric,
  percent,
  plural,
  shortTime,
} from "../support/format.ts";
import { endOf } from "./incidents.ts";
import { planLine } from "./plan-report.ts";
import { exchangeOf, timeOf } from "./report.ts";

/** Most lines of a section of the view: the longest waits, the fullest buffers, the last alerts. */
const rowsMax = 12;

/** The state of a cluster: runs, processes, queues and waits, tiers, alerts, incidents. */
export function topLines(report: ClusterReport): string[] {
  const { cluster, runs, processes, unresponsive } = report;
  const devices = processes.reduce((sum, one) => sum + devicesIn(one.actors), 0);
  const size = processes.length === 1 ? "1 process" : `${count(processes.length)} processes`;
  const fleet = `${size}, ${plural(devices, "device")} at work`;
  const missing = unresponsive.map((host) => `host:${host}`).join(", ");
  return [
    `Cluster ${cluster}: ${plural(runs.length, "run")}, ${fleet}`,
    ...(unresponsive.length === 0 ? [] : [`No answer from ${missing}`]),
    ...section("Runs", runLines(report)),
    ...section("Processes", aligned([processTitles, ...processes.map(processCells)])),
    ...section("Waiting", waitingLines(processes)),
    ...section("Who waits for whom", graphLines(report)),
    ...section("Buffers in use", creditLines(processes)),
    ...section("Direct links", linkLines(processes)),
    ...section("Tiers", tierStateLines(processes)),
    ...section("Alerts", alertLines(report)),
  ];
}

/** The shards of all runs, the most looked up first. */
export function allShardLines({ processes, unresponsive }: ClusterReport): string[] {
  const missing = unresponsive.map((host) => `host:${host}: no answer`);
  return [...shardLines(processes.flatMap((one) => one.shards)), ...missing];
}

/** A line for each shard, the most looked up first. */
export function shardLines(shards: readonly ShardReport[]): string[] {
  const hottest = [...shards].sort((a, b) => b.lookupsPerStep - a.lookupsPerStep);
  const cells = hottest.map((one) => {
    const { actor, run, table, device, state, tier, part } = one;
    const rows = `${count(one.firstRow)} to ${count(one.firstRow + Math.max(0, one.rows - 1))}`;
    const columns = `${one.firstColumn} to ${one.firstColumn + one.columns - 1}`;
    const size = [
      `device:${device}`,
      tier,
      bytes(one.bytes),
      count(Math.round(one.lookupsPerStep)),
    ];
    const pinned = !one.pin
      ? ""
      : `${one.pin.isFrozen ? "frozen on" : "on"} device:${one.pin.device}`;
    const saved = part === null ? "not yet" : `step ${count(part.cut)}, ${bytes(part.bytes)}`;
    return [actor, run, table, rows, columns, ...size, state, pinned, saved];
  });
  return cells.length === 0 ? [] : aligned([shardTitles, ...cells]);
}

const shardTitles = [
  ...["shard", "run", "table", "rows", "columns", "device", "tier", "memory"],
  ...["ids a step", "state", "pinned", "last checkpoint"],
];

/** A line for each reader, by run and number. */
export function readerLines({ processes, unresponsive }: ClusterReport): string[] {
  const readers = processes.flatMap((one) =>
    one.readers.map((own) => ({ ...own, host: one.host })),
  );
  const nameOf = ({ run, actor }: (typeof readers)[number]) => `${run} ${actor}`;
  readers.sort((a, b) => nameOf(a).localeCompare(nameOf(b), "en", { numeric: true }));
  const cells = readers.map((one) => {
    const { actor, run, host, state, limit, position, failures, drains } = one;
    const { step, pass, sample } = position;
    return [
      ...[actor, run, `host:${host ?? 0}`, state],
      `step ${count(step)}, epoch ${count(pass)}, sample ${count(sample)}`,
      ...[count(one.samples), count(Math.round(one.samplesPerSecond))],
      limit === null ? "none" : `${count(limit)} of all`,
      ...[bytes(one.bytes), `${one.batchMs.toFixed(1)} ms`, duration(one.limitedMs / 1000)],
      ...[count(one.ready), count(drains), count(failures)],
    ];
  });
  const missing = unresponsive.map((host) => `host:${host}: no answer`);
  return [...(cells.length === 0 ? [] : aligned([readerTitles, ...cells])), ...missing];
}

const readerTitles = [
  ...["reader", "run", "host", "state", "reads next", "samples", "samples/s", "limit", "read"],
  ...["a batch", "held back", "batches ready", "drained", "failed"],
];

/** The lines of each run, without a table: progress, then plan and times of a step. */
export function runLines({ runs }: ClusterReport): string[] {
  return runs.flatMap(({ run, status, generation, step, steps, devices, ...rest }) => {
    const { loss, samplesPerSecond, standstill, times, name, plan, pushLag } = rest;
    const parts = [
      ...(standstill === undefined ? [] : [standstill]),
      ...(steps === 0 ? [] : [`step ${count(step)} of ${count(steps)}`, `loss ${metric(loss)}`]),
      ...(devices === 0 ? [] : [`${count(samplesPerSecond)} samples/s`]),
      ...(generation === 0 ? [] : [`generation ${generation}`]),
      ...(devices === 0 ? [] : [plural(devices, "device")]),
    ];
    const first = `${run} (${name}) ${[status, parts.join(", ")].filter(Boolean).join(": ")}`;
    const placed = devices === 0 ? "" : planLine(plan);
    return [
      first,
      ...(placed === "" ? [] : placed.split("\n")),
      ...(pushLag === undefined ? [] : [`  servers: ${pushLagOf(pushLag)}`]),
      ...(times === undefined ? [] : [`  a step: ${timeOf(times)}`]),
      ...(times?.exchange ? [`  communication: ${exchangeOf(times.exchange)}`] : []),
    ];
  });
}

function pushLagOf({ batches, oldestMs }: NonNullable<RunReport["pushLag"]>): string {
  if (batches === 0) return "no update is unconfirmed";
  const of = batches === 1 ? "1 batch" : `${count(batches)} batches`;
  return `updates of ${of} of a thread unconfirmed, the first for ${shortTime(oldestMs / 1000)}`;
}

/** The supervision tree of every process. */
export function treeLines({ processes, unresponsive }: ClusterReport): string[] {
  const trees = processes.flatMap(({ host, machine, pid, actors }) => {
    const who = host === null ? "leader" : host === 0 ? "leader and host:0" : `host:${host}`;
    return [`${who}: process ${pid} on ${machine}`, ...branchLines(actors, "")];
  });
  return [...trees, ...unresponsive.map((host) => `host:${host}: no answer`)];
}

function branchLines({ actor, run, generation, state, children }: ActorReport, indent: string) {
  const of = run === undefined ? "" : ` (${run}, generation ${generation})`;
  const lines: string[] = [`${actor}${of} ${state}`];
  for (const [at, child] of children.entries()) {
    const isLast = at === children.length - 1;
    const [first = "", ...rest] = branchLines(child, indent);
    lines.push(`${isLast ? "└─" : "├─"} ${first}`);
    lines.push(...rest.map((line) => `${isLast ? "  " : "│ "} ${line}`));
  }
  return lines;
}

function section(title: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : ["", title, ...lines.map((line) => `  ${line}`)];
}

const processTitles = [
  ...["host", "machine", "pid", "memory", "main thread busy", "frames refused"],
  "state",
];

function processCells({ host, machine, pid, drain, ...rest }: ProcessReport) {
  const { residentBytes, mainThreadBusy, refusedFrames } = rest;
  const name = host === null ? "leader" : `host:${host}`;
  const load = [bytes(residentBytes), percent(mainThreadBusy), count(refusedFrames)];
  const state = drain && `draining, ${duration(drain.seconds)} left: ${drain.reason}`;
  return [name, machine, String(pid), ...load, state ?? ""];
}

function waitingLines(processes: readonly ProcessReport[]): string[] {
  const all = processes.flatMap(({ actors }) => actorsIn(actors));
  const waiting = all.flatMap(({ actor, run, state, mailbox }) => {
    return mailbox === undefined || mailbox.depth === 0 ? [] : [{ actor, run, state, ...mailbox }];
  });
  waiting.sort((a, b) => (b.oldestMs ?? 0) - (a.oldestMs ?? 0));
  return waiting.slice(0, rowsMax).map(({ actor, run, state, depth, oldestMs }) => {
    const since = oldestMs === undefined ? "" : `, for ${duration(oldestMs / 1000)}`;
    return `${actor}${run === undefined ? "" : ` of ${run}`} (${state}): ${depth} to do${since}`;
  });
}

/** The longest waits of each run, and its unresponsive actors. */
function graphLines({ runs }: ClusterReport): string[] {
  return runs.flatMap(({ run, waitsFor: { waits, unresponsive: stuck } }) => {
    const longest = [...waits].sort((a, b) => b.forMs - a.forMs).slice(0, rowsMax);
    const lines = longest.map(({ waiter, awaited, what, forMs }) => {
      return `${run}: ${waiter} waits ${duration(forMs / 1000)} for ${awaited}: ${what}`;
    });
    return stuck.length === 0 ? lines : [...lines, `${run}: unresponsive: ${stuck.join(", ")}`];
  });
}

function creditLines(processes: readonly ProcessReport[]): string[] {
  const used = processes
    .flatMap(({ host, credits }) => credits.map((one) => ({ ...one, host })))
    .filter((one) => one.used > 0);
  used.sort((a, b) => b.used / b.most - a.used / a.most);
  return used.slice(0, rowsMax).map(({ host, actor, what, used: now, most }) => {
    const isBytes = what.endsWith("bytes");
    const [shown, room] = isBytes ? [bytes(now), bytes(most)] : [count(now), count(most)];
    const owner =
      actor === "transport"
        ? `transport of ${host === null ? "the leader" : `host:${host}`}`
        : actor;
    return `${owner}: ${shown} of ${room} ${isBytes ? what.replace(" bytes", "") : what}`;
  });
}

/** The direct links of each process, those with links over the broker first. */
function linkLines(processes: readonly ProcessReport[]): string[] {
  const all = processes.flatMap(({ host, links }) => links.map((one) => ({ ...one, host })));
  all.sort((a, b) => b.broker - a.broker);
  return all.slice(0, rowsMax).map(({ run, host, direct, broker, refused, reasons, ...one }) => {
    const sent = `${bytes(one.bytes.direct)} direct, ${bytes(one.bytes.broker)} over the broker`;
    const parts = [
      `${plural(direct, "direct link")}, ${broker} over the broker; ${sent}`,
      ...(refused === 0 ? [] : [`${plural(refused, "stranger")} refused`]),
      ...reasons.slice(0, 1).map(({ to, reason }) => `to ${to}: ${reason}`),
    ];
    return `host:${host ?? 0} of ${run}: ${parts.join("; ")}`;
  });
}

function tierStateLines(processes: readonly ProcessReport[]): string[] {
  return processes.flatMap(({ tiers }) =>
    tiers.map(({ device, state, store }) => {
      return `tier of device ${device}: ${state}${store === undefined ? "" : ` (${store})`}`;
    }),
  );
}

function alertLines({ runs, incidents }: ClusterReport): string[] {
  const open = new Set(runs.map(({ run }) => run));
  const alerts = runs.flatMap(({ run, alerts: own }) => own.map((alert) => `${run}: ${alert}`));
  const failed = incidents
    .filter(({ run }) => open.has(run))
    .map(({ run, at, offender, error, ...incident }) => {
      const end = endOf(incident);
      return `${at.slice(0, "2026-01-01T00:00:00".length)} ${run}: ${offender} failed, ${end}: ${error.message}`;
    });
  return [...alerts, ...failed].slice(-rowsMax);
}

function actorsIn(actor: ActorReport): ActorReport[] {
  return [actor, ...actor.children.flatMap(actorsIn)];
}

function devicesIn(actor: ActorReport): number {
  return actorsIn(actor).filter((one) => one.actor.startsWith("device:")).length;
}

/** The tiers of all runs. */
export function allTierLines({ processes, unresponsive }: ClusterReport): string[] {
  const missing = unresponsive.map((host) => `host:${host}: no answer`);
  return [...tierLines(processes.flatMap((one) => one.tiers)), ...missing];
}

/** A line for each table of each tier. */
export function tierLines(tiers: readonly TierReport[]): string[] {
  const cells = tiers.flatMap(({ actor, run, state, store = "", requests, requestsMax, ...tier }) =>
    tier.tables.map(({ table, hbm, ddr, ssd }) => [
      ...[actor, run, state, store, table, ...cacheCells(hbm)],
      ...(ddr === null ? ["", "", "", ""] : [...cacheCells(ddr), count(ddr.dirty)]),
      ...[count(ssd.rows), bytes(ssd.bytes), `${tier.prefetch}`, `${requests} of ${requestsMax}`],
    ]),
  );
  return cells.length === 0 ? [] : aligned([titles, ...cells]);
}

const titles = [
  ...["tier", "run", "state", "store", "table"],
  ...["HBM rows", "hits", "evicted"],
  ...["DDR rows", "hits", "evicted", "to write"],
  ...["SSD rows", "size", "ahead", "requests"],
];

function cacheCells({ rows, slots, hitRate, evicted }: CacheReport): string[] {
  return [`${count(rows)} of ${count(slots)}`, percent(hitRate), count(evicted)];
}
