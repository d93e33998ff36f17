// `osiris trace`: the trace of a run on two hosts follows the Trace Event Format, shows every
// thread, and has arrows between the hosts.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import type { HostClock } from "../../actors/client/chrome-trace.ts";
import { Cluster, type JobOptions } from "../../internal.ts";
import { startDirectory } from "../data/data-files.ts";
import { runCli, runOk } from "../helpers/processes/cli.ts";
import { startHost } from "../helpers/processes/host-processes.ts";
import { lastJson } from "../helpers/processes/start-cli.ts";
import { jobOf } from "./jobs.ts";

/** An event of the Trace Event Format. */
interface TraceEvent {
  readonly ph: string;
  readonly name: string;
  readonly cat?: string;
  readonly pid: number;
  readonly tid: number;
  readonly ts: number;
  readonly dur: number;
  readonly id: number;
  readonly args: Readonly<Record<string, number | string>>;
}

/** What the command prints with `--json`. */
interface TraceReport {
  readonly report: string;
  readonly run: string;
  readonly missing: readonly number[];
  readonly clocks: readonly HostClock[];
}

/** The violations of the trace-event format in these events. */
function problemsIn(events: readonly TraceEvent[]): string[] {
  const problems: string[] = [];
  const open = new Map<string, TraceEvent[]>();
  const flows = new Map<number, TraceEvent[]>();
  const slices = events.filter(({ ph }) => ph === "X");
  const isTime = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 0;
  for (const one of events) {
    const text = JSON.stringify(one);
    if (!isTime(one.pid) || !isTime(one.tid) || one.name === "") problems.push(`names: ${text}`);
    if (one.ph === "M") continue;
    if (!isTime(one.ts)) problems.push(`time: ${text}`);
    if ("stf".includes(one.ph)) flows.set(one.id, [...(flows.get(one.id) ?? []), one]);
    else if (one.ph !== "X") problems.push(`phase: ${text}`);
  }
  for (const one of [...slices].sort((a, b) => a.ts - b.ts || b.dur - a.dur)) {
    if (!isTime(one.dur)) problems.push(`duration: ${JSON.stringify(one)}`);
    const stack = open.get(`${one.pid} ${one.tid}`) ?? [];
    open.set(`${one.pid} ${one.tid}`, stack);
    const endOf = ({ ts, dur }: TraceEvent) => ts + dur;
    while (stack.length > 0 && endOf(stack.at(-1) ?? one) <= one.ts) stack.pop();
    const around = stack.at(-1);
    if (around !== undefined && endOf(around) < endOf(one)) {
      problems.push(`crosses: ${JSON.stringify([around, one])}`);
    }
    stack.push(one);
  }
  for (const flow of flows.values()) {
    const shape = flow.map(({ ph }) => ph).join("");
    if (!/^st?f$/.test(shape)) problems.push(`arrow: ${JSON.stringify(flow)}`);
    if (flow.some(({ ts }, at) => ts < (flow[at - 1]?.ts ?? 0))) problems.push("arrow goes back");
    for (const { pid, tid, ts } of flow) {
      const isIn = (one: TraceEvent) =>
        one.pid === pid && one.tid === tid && one.ts <= ts && ts <= one.ts + one.dur;
      if (!slices.some(isIn)) problems.push(`arrow in no slice: ${JSON.stringify(flow)}`);
    }
  }
  return problems;
}

test.serial("a finished run on two hosts is traced: threads, frames, arrows", async (t) => {
  const directory = startDirectory(t);
  const file = join(directory, "trace.json");
  await using cluster = await Cluster.start({ devices: 1, links: "direct" });
  const at = ["--nats", cluster.url, "--token", cluster.token ?? ""];
  await startHost(t, cluster, { devices: 1, cwd: directory });
  const { data, ...rest } = jobOf(join(directory, "checkpoints"), 3000);
  const cache = join(directory, "cache");
  const run = await cluster.submit({ ...rest, data: { ...data, cache } } as JobOptions);
  const { times } = await run.result();
  t.true((times?.exchange?.exposed ?? 0) > 0);
  t.true((times?.exchange?.hidden ?? -1) >= 0);
  const inFlight = times?.exchange?.inFlight ?? -1;
  t.true(inFlight >= 0 && inFlight <= (times?.exchange?.exposed ?? 0), `${inFlight}`);

  const traced = await runOk(
    t,
    ["trace", run.run, ...at, "-o", file, "--last", "10", "--json"],
    directory,
  );
  const report = lastJson<TraceReport>(traced);
  t.like(report, { report: "trace", run: run.run, missing: [] });
  const { offsetMs, precisionMs = 0 } = report.clocks[1] ?? { offsetMs: Number.NaN };
  t.true(Math.abs(offsetMs) <= precisionMs, "both processes have the clock of one machine");
  const events = JSON.parse(readFileSync(file, "utf8")) as TraceEvent[];
  t.deepEqual(problemsIn(events), []);
  const namesOf = (pid: number) => {
    const own = events.filter((one) => one.pid === pid && one.name === "thread_name");
    return new Set(own.map(({ args }) => args.name));
  };
  const rows = [
    [...["device:0", "writer:0", "reader:0"], "bridge to host:1 pooled"],
    [...["device:1", "writer:1", "reader:1"], "bridge from host:0 pooled"],
  ] as const;
  for (const [pid, own] of rows.entries()) {
    // Frames travel directly once the link is open.
    const names = new Set(
      [...namesOf(pid)].map((name) => `${name}`.replace(/ \((direct|broker)\)$/, "")),
    );
    for (const row of own) t.true(names.has(row), `${row} in ${[...names]}`);
  }
  for (const category of ["task", "wait", "read", "write", "sent", "landed"]) {
    t.true(
      events.some(({ cat }) => cat === category),
      category,
    );
  }
  const arrows = events.filter(({ ph }) => ph === "s");
  t.true(new Set(arrows.map(({ pid }) => pid)).size === 2, "arrows leave both hosts");
  t.true(
    events.some(({ ph }) => ph === "t"),
    "some arrow ends a wait",
  );

  const unknown = await runCli(["trace", "nobody", ...at], directory);
  t.is(unknown.code, 2);
  t.regex(unknown.stderr, /^osiris: There is no run and no job `nobody`/);
  const unwritable = await runCli(["trace", run.run, ...at, "-o", "no/such/file"], directory);
  t.is(unwritable.code, 2);
  t.regex(unwritable.stderr, /^osiris: Expected to write the trace to no\/such\/file: ENOENT/);
});
