// Timelines of a run, collected page by page from its hosts, and the clocks of these hosts.

import test from "ava";
import { clocksOf } from "../../../actors/client/chrome-trace.ts";
import { collectTimelines } from "../../../actors/client/run-timelines.ts";
import type { PackedRecord, TimelinePage } from "../../../actors/host/kept-timelines.ts";
import { RemoteError, recordError, StepTimeoutError } from "../../../src/errors/errors.ts";
import { SimulatedClock } from "../../../src/ports/clock.ts";
import { openTimeline, readTimeline, timelineBytes } from "../../../src/ports/timeline.ts";

/** Hosts that each answer with pages of one thread. */
function asking(hosts: Readonly<Record<number, readonly TimelinePage[] | null>>) {
  const requests: unknown[] = [];
  const ask = async (body: unknown) => {
    const { host, first = 0 } = body as { readonly host?: number; readonly first?: number };
    requests.push(body);
    if (host === 9) throw new RemoteError(recordError(new StepTimeoutError("host:9", 1000)));
    if (host === undefined) return { hosts: Object.keys(hosts).map(Number) };
    return { page: hosts[host]?.[first] ?? null };
  };
  return {
    requests,
    ports: { ask: ask as never, clock: new SimulatedClock(), isOver: async () => true },
  };
}

const task = (step: number): PackedRecord => ["task", 0, step, step, step + 1, 0, 0, 0];

test("timelines come page by page from all hosts of the newest generation; others are missing", async (t) => {
  const page = { generation: 3, hosts: [0, 1, 2, 4, 9], lastStep: 8 };
  const of = (actor: string, ...steps: number[]) => [{ actor, records: steps.map(task) }];
  const { ports, requests } = asking({
    0: [
      { ...page, threads: of("device:0", 4, 5, 8), next: 1 },
      { ...page, threads: of("reader:0", 7) },
    ],
    1: [{ ...page, threads: of("device:1", 8) }],
    2: [{ ...page, generation: 2, threads: of("device:2", 90) }],
    7: null,
    9: [{ ...page, threads: of("device:9", 8) }], // Host 9 does not answer.
  });
  const found = await collectTimelines("r1", { steps: 4 }, ports);
  t.like(found, { generation: 3, fromStep: 4, toStep: 8, missing: [2, 4, 9] });
  t.deepEqual(
    found.threads.map(({ host, actor }) => [host, actor]),
    [
      [0, "device:0"],
      [0, "reader:0"],
      [1, "device:1"],
    ],
  );
  t.true(requests.some((body) => (body as { readonly fromStep?: number }).fromStep === 4));
});

test("a trace of a run whose steps no host has recorded fails with TRACE_MISSING", async (t) => {
  const page = { generation: 1, hosts: [0], lastStep: -1, threads: [] };
  for (const pages of [null, [page]]) {
    const error = await t.throwsAsync(collectTimelines("r9", {}, asking({ 0: pages }).ports));
    t.like(error, { code: "TRACE_MISSING" });
    t.regex(error?.message ?? "", /^No host keeps a step of run r9: /);
  }
});

test("a clock offset is half the difference of least transits, exact to half their sum", (t) => {
  const frame = (kind: PackedRecord[0], id: number, toMs: number): PackedRecord => {
    return [kind, 0, 1, toMs - 1, toMs, 8, 0, id];
  };
  const to = (peer: number, record: PackedRecord): PackedRecord => {
    const [kind, at, step, fromMs, toMs, bytes, , id] = record;
    return [kind, at, step, fromMs, toMs, bytes, peer, id];
  };
  // The clock of host 5 is 1000 ms ahead. The fastest frames take 2 ms there and 4 ms back, and
  // only these count.
  const one = [frame("sent", 1, 10), frame("sent", 2, 20)].map((record) => to(1, record));
  const two = [frame("landed", 1, 1012), frame("landed", 2, 1029)];
  two.push(frame("sentDirect", 3, 1030), frame("sent", 4, 1040));
  one.push(to(1, frame("landedDirect", 3, 34)), to(1, frame("landed", 4, 60)));
  const threads = [
    { host: 3, actor: "bridge:3", records: one },
    { host: 5, actor: "bridge:5", records: two.map((record) => to(0, record)) },
    { host: 6, actor: "bridge:6", records: [] },
  ];
  const about = { run: "r1", generation: 1, fromStep: 0, toStep: 1, missing: [] };
  t.deepEqual(clocksOf({ ...about, hosts: [3, 5, 6], threads }), [
    { host: 3, offsetMs: 0, precisionMs: 0 },
    { host: 5, offsetMs: 999, precisionMs: 3 },
    { host: 6, offsetMs: 0, precisionMs: undefined },
  ]);
});

test("a timeline has its last records, but none that may be partly overwritten", (t) => {
  const memory = new SharedArrayBuffer(8 + timelineBytes(5));
  const timeline = openTimeline(memory, 8, 5);
  const steps = () => readTimeline(memory, 8, 5).map(({ step }) => step);
  t.deepEqual(steps(), []);
  for (let step = 0; step < 3; step++) timeline.add("task", 1, step, step, step + 0.5);
  t.deepEqual(steps(), [0, 1, 2]);
  for (let step = 3; step < 13; step++) timeline.add("sent", 1, step, step, step + 0.5, 7, 2, 9);
  t.deepEqual(steps(), [9, 10, 11, 12]);
  const last = {
    kind: "sent",
    what: 1,
    step: 12,
    fromMs: 12,
    toMs: 12.5,
    bytes: 7,
    peer: 2,
    id: 9,
  };
  t.deepEqual(readTimeline(memory, 8, 5).at(-1), last as never);
});
