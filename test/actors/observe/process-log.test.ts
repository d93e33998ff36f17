// The log of a process: its lines, its file, and no secrets in them.

import { join } from "node:path";
import test from "ava";
import { logEvent } from "../../../actors/observe/event-lines.ts";
import { openObserver } from "../../../actors/observe/observer.ts";
import { openProcessLog, redaction } from "../../../actors/observe/process-log.ts";
import { logBrokerStatus } from "../../../actors/runtime/network.ts";
import { readable } from "../../../cli/support/observing.ts";
import { readRunLog } from "../../../index.ts";
import { FrameCorruptError, recordError } from "../../../src/errors/errors.ts";
import { SimulatedClock } from "../../../src/ports/clock.ts";
import type { Log, LogFields } from "../../../src/ports/log.ts";
import type { TransportStatus } from "../../../src/wire/messages/transport.ts";
import { startDirectory } from "../../data/data-files.ts";
import { runJob, startTestCluster } from "../../helpers/clusters/clusters.ts";

interface Line {
  readonly time: string;
  readonly level: string;
  readonly message: string;
  readonly run?: string;
  readonly generation?: number;
  readonly step?: number;
  readonly actor?: string;
  readonly event?: string;
}

test.serial(
  "a run logs its events, actors and threads, on the console and in its file",
  async (t) => {
    const lines: Line[] = [];
    const write = (line: string) => void lines.push(JSON.parse(line) as Line);
    await using place = await startTestCluster(2, { log: { level: "debug", write } });
    const { run, events, result } = await runJob(place, place.job());
    const own = lines.filter((line) => line.run === run.run);
    // Each event is a line, in the order of the events.
    t.deepEqual(
      own.flatMap(({ event }) => event ?? []),
      events.map(({ type }) => type),
    );
    for (const actor of ["device:0", "device:1"]) {
      const told = own.filter((line) => line.actor === actor);
      const ready = told.find(({ message }) => message === "ready");
      t.like(ready, { level: "info", generation: 1, step: 0 });
      // Lines of a thread keep their order, as their growing steps show.
      const steps = told.flatMap(({ step }) => step ?? []);
      t.deepEqual(
        steps,
        [...steps].sort((a, b) => a - b),
      );
      t.is(steps.at(-1), 43);
    }
    // The log beside the checkpoints starts with the first event, older than the directory.
    const { lines: kept } = readRunLog(result.directory, { run: run.run });
    t.is(kept[0]?.event, "run.queued");
    t.is(kept.at(-1)?.event, "run.finished");
    const pressing = own.filter(({ level }) => level !== "debug");
    t.deepEqual(
      kept.map(({ message }) => message),
      pressing.map(({ message }) => message),
    );
  },
);

test("a run that writes lines keeps its log file, however many runs begin meanwhile", async (t) => {
  const home = startDirectory(t);
  const log = await openProcessLog();
  const begin = (run: string) => log.keep(run, join(home, run), "leader");
  begin("long");
  for (let at = 0; at < 100; at++) {
    begin(`short-${at}`);
    log.write("info", "alive", { run: "long" });
  }
  t.is(readRunLog(join(home, "long")).lines.length, 100);
});

test("no secret appears in the log, wherever it occurs in a line", async (t) => {
  const lines: string[] = [];
  const log = await openProcessLog({ level: "info", write: (line) => lines.push(line) }, [
    'se"cret-token',
    undefined,
    "",
  ]);
  const cause = "cannot reach nats://kim:hunter22@host:4222/x";
  log.write("warn", 'refused se"cret-token', { cause, nested: { password: 'a"b', pass: "c" } });
  const [line = ""] = lines;
  t.notRegex(line, /cret-token|hunter22|kim|"a\\"b"|"c"/);
  t.like(JSON.parse(line), {
    level: "warn",
    message: "refused ***",
    cause: "cannot reach nats://***@host:4222/x",
    nested: { password: "***", pass: "***" },
  });
  t.is(redaction(["x"])("max"), "max");
  t.is(redaction([])("nats://kim:a@b@host, s3://b/a@b"), "nats://***@host, s3://b/a@b");
});

test("refused frames are logged a few times a second, with the number of suppressed lines", async (t) => {
  const lines: string[] = [];
  let calls = 0;
  const clock = new SimulatedClock();
  const log = { level: "info" as const, write: (line: string) => void lines.push(line) };
  const observer = await openObserver({ log, tracing: undefined }, [], () => calls++, clock);
  const reason = recordError(new FrameCorruptError("a.b", "it is none"));
  const refuse = () =>
    observer.incident({ offender: "wire", supervisor: "process", context: "running", reason });
  for (let frame = 0; frame < 25; frame++) refuse();
  t.is(lines.length, 10);
  clock.advance(1000);
  refuse();
  t.is(lines.length, 12);
  t.is((JSON.parse(lines[10] ?? "") as Line).message, "15 more frames were refused");
  t.is(calls, 26);
});

test("on a terminal a log line begins with time, level, run, generation, step and actor", (t) => {
  const fields = { time: "2026-01-02T12:04:31.120Z", level: "warn", pid: 1, machine: "m" };
  const about = { run: "r1", generation: 2, step: 40, actor: "device:1" };
  const line = JSON.stringify({ ...fields, ...about, code: "PEER_LOST", message: "is gone" });
  t.is(readable(line), "12:04:31.120 warn  r1 g2 s40 device:1 is gone code=PEER_LOST");
});

/** A log that keeps its lines unformatted. */
function keptLog() {
  const lines: (LogFields & { readonly level: string; readonly message: string })[] = [];
  const log: Log = {
    write: (level, message, fields) => void lines.push({ level, message, ...fields }),
    keep() {},
  };
  return { log, lines };
}

test("losing and regaining the broker is one log line each", (t) => {
  const { log, lines } = keptLog();
  const clock = new SimulatedClock();
  let see = (_status: TransportStatus) => {};
  const onStatus = (tell: typeof see) => {
    see = tell;
    return { unsubscribe() {} };
  };
  logBrokerStatus({ address: "nats://far:4222", onStatus }, clock, log);
  see("lost");
  clock.advance(9100);
  see("connected");
  see("closed");
  const about = { actor: "transport", broker: "nats://far:4222" };
  t.deepEqual(lines, [
    { level: "warn", message: "the connection to the broker was lost; reconnecting", ...about },
    { level: "info", message: "the connection to the broker is restored", ...about, ms: 9100 },
  ]);
});

test("an incident's log line has its step; a requested end is not logged as an error", (t) => {
  const { log, lines } = keptLog();
  const error = { name: "E", code: "PEER_LOST", message: "no heartbeat", recovery: "restore" };
  const where = { offender: "host:2", supervisor: "job:r1", context: "x", step: 40, host: 2 };
  const incident = { incident: 3, at: "2026-01-02T03:04:05Z", ...where };
  const failed = { ...incident, error: { ...error, recovery: "restore" as const } };
  logEvent(log, { type: "run.incident", ...failed, seq: 0, run: "r1", generation: 2 });
  const recovered = { fromStep: 30, seconds: 3, memoryBytes: 0, storeBytes: 1, keptBytes: 0 };
  const whole = { ...failed, generation: 2, followed: [], actions: [] };
  const event = { type: "run.recovered", ...recovered, incidents: [whole] } as const;
  logEvent(log, { ...event, seq: 1, run: "r1", generation: 3 });
  const cancelled = { ...failed.error, code: "RUN_CANCELLED", message: "was cancelled" };
  logEvent(log, { type: "run.failed", error: cancelled, seq: 2, run: "r1", generation: 0 });
  const [first, second, third] = lines;
  t.like(first, { level: "warn", generation: 2, step: 40, host: 2, incident: 3, actor: "host:2" });
  t.deepEqual(second?.incidents, [3]);
  t.like(third, { level: "info", message: "was cancelled" });
  t.false(Object.hasOwn(third ?? {}, "generation"), "generation 0 is no generation");
});
