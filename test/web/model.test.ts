import test from "ava";
import type { IncidentRecord } from "../../actors/run-state/incident-record.ts";
import type { RunEvent } from "../../actors/run-state/run-events.ts";
import { waitedFor } from "../../src/training/meters/step-meter.ts";
import { phasesOf } from "../../web/model/incident-phases.ts";
import { ReplayCheck, replayKind, replayMark } from "../../web/model/replay.ts";
import { RunStory } from "../../web/model/run-story.ts";
import { Series } from "../../web/model/series.ts";
import { stageGroups, stageSharesOf } from "../../web/model/stages.ts";

test("a curve of 100,000 points is kept in bounded memory, evenly, with its first and its newest", (t) => {
  const series = new Series(1000);
  for (let step = 0; step < 100_000; step++) series.add([step, step / 2]);
  const points = series.points();
  t.true(points.length > 400 && points.length <= 1002, `${points.length} points`);
  t.deepEqual(points[0], [0, 0]);
  t.deepEqual(points.at(-1), [99_999, 49_999.5]);
  const steps = points.slice(0, -1).map(([step = 0]) => step);
  const gaps = new Set(steps.slice(1).map((step, at) => step - (steps[at] ?? 0)));
  t.is(gaps.size, 1, "every point is as far from the next");
});

test("each part of a step is in one stage, so that the stages add up to the step", (t) => {
  const parts = stageGroups.flatMap((group) => group.parts);
  t.deepEqual([...parts].sort(), ["computing", "sendingIds", ...waitedFor].sort());
  const shares = stageSharesOf({ computing: 0.5, batch: 0.25, rows: 0.125, losses: 0.125 });
  t.is(
    shares.reduce((sum, one) => sum + one, 0),
    1,
  );
});

test("figures that were told twice are compared bit by bit, and only those", (t) => {
  const check = new ReplayCheck();
  check.begin(0);
  for (const step of [10, 20, 30]) check.note("loss", step, step / 3);
  t.is(check.found, undefined);
  check.begin(10);
  t.false(check.note("loss", 10, 1), "the checkpoint's own step is not done again");
  t.is(replayMark(check.found as never), "no step was told twice yet");
  t.is(replayKind(check.found as never), "open");
  t.true(check.note("loss", 15, 5));
  t.true(check.note("loss", 20, 20 / 3));
  t.like(check.found, { from: 10, to: 30, compared: 1, different: 0 });
  t.is(replayKind(check.found as never), "good");
  check.note("loss", 30, 10 + Number.EPSILON * 8);
  t.like(check.found, { compared: 2, different: 1 });
  t.is(replayMark(check.found as never), "1 of 2 figures differ");
  t.false(check.note("loss", 40, 1), "what lies behind was not done before");
});

const record = {
  incident: 1,
  at: "2026-01-01T00:00:10.000Z",
  offender: "device:1",
  supervisor: "host:0",
  context: "running",
  error: { name: "PeerLostError", code: "PEER_LOST", message: "gone", recovery: "restore" },
  step: 25,
  generation: 1,
  followed: [],
  actions: [{ by: "job:r1", did: "restarts", afterMs: 40 }],
  end: { how: "restored", generation: 2, step: 20, afterMs: 400 },
} as unknown as IncidentRecord;

test("the phases of an incident join without a gap, from the silence to the step that was reached", (t) => {
  const waits = [{ who: "device:0", whom: "device:1", what: "rows", forMs: 300 }];
  const caughtUpAtMs = Date.parse(record.at) + 900;
  const phases = phasesOf({ record: { ...record, waits }, caughtUpAtMs });
  t.deepEqual(
    phases.map(({ name, fromMs, toMs }) => [name, fromMs, toMs]),
    [
      ["detect", -300, 0],
      ["decide", 0, 40],
      ["restore", 40, 400],
      ["replay", 400, 900],
    ],
  );
  t.deepEqual(
    phasesOf({ record: { ...record, end: undefined } }).map(({ name }) => name),
    ["decide"],
  );
});

const event = (seq: number, type: string, more: object) =>
  ({ seq, run: "r1", generation: 1, type, ...more }) as unknown as RunEvent;
const progress = (seq: number, step: number, loss = 1 / step) =>
  event(seq, "run.progress", { step, steps: 40, loss, samplesPerSecond: 10, repairedIds: [] });

test("a run's story draws what was done again over what was done first, and knows when it caught up", (t) => {
  const story = new RunStory("r1");
  const events = [
    event(0, "run.queued", { name: "<i>job</i>" }),
    event(1, "run.started", { fromStep: 0, steps: 40, devices: 2 }),
    progress(2, 10),
    event(3, "run.checkpointed", { step: 20, digest: "a" }),
    progress(4, 25),
    event(5, "run.incident", { ...record, end: undefined, actions: undefined }),
    event(6, "run.started", { fromStep: 20, steps: 40, devices: 2 }),
    event(7, "run.recovered", { fromStep: 20, incidents: [record] }),
    progress(8, 25),
    progress(9, 30),
  ];
  for (const one of events) story.take({ event: one, atMs: Date.parse(record.at) + 100 * one.seq });
  for (const one of events) story.take({ event: one, atMs: 0 }); // R1
  t.is(story.name, "<i>job</i>");
  t.deepEqual(
    story.loss.points().map(([step]) => step),
    [10, 25, 30],
  );
  t.deepEqual(
    story.again.points().map(([step]) => step),
    [25],
  );
  t.like(story.replay, { from: 20, to: 25, compared: 1, different: 0 });
  t.is(story.incidents[0]?.caughtUpAtMs, Date.parse(record.at) + 800);
  t.is(story.state, "running");
});

test("a figure that differs after a recovery is told", (t) => {
  const story = new RunStory("r1");
  const events = [
    event(0, "run.started", { fromStep: 0, steps: 40, devices: 2 }),
    progress(1, 25),
    event(2, "run.started", { fromStep: 20, steps: 40, devices: 2 }),
    progress(3, 25, 0.040_000_001),
  ];
  for (const one of events) story.take({ event: one });
  t.like(story.replay, { compared: 1, different: 1 });
});
