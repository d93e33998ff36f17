import test from "ava";
import type { IncidentRecord } from "../../../../actors/run/state/incident-record.ts";
import type { RunEvent } from "../../../../actors/run/state/run-events.ts";
import { comparedMetric, isHigherBetter } from "../../../../src/training/loop/best-evaluation.ts";
import { waitedFor } from "../../../../src/training/meters/step-meter.ts";
import { phasesOf } from "../../page/model/incident-phases.ts";
import { dataLines, differingOptions, jobLines, jobOfText } from "../../page/model/job-lines.ts";
import { metricsOf, shownMetrics } from "../../page/model/metric-curves.ts";
import {
  type Replay,
  ReplayCheck,
  replayKind,
  replaySentence,
  replaySummary,
} from "../../page/model/replay.ts";
import { momentText, RunStory, stageGroups, stageSharesOf } from "../../page/model/run-story.ts";
import { Series } from "../../page/model/series.ts";
import { withBlanks } from "../../page/model/template-blanks.ts";

test("a curve of 100,000 points has bounded memory, even spacing, and its first and last point", (t) => {
  const series = new Series(1000);
  for (let step = 0; step < 100_000; step++) series.add([step, step / 2]);
  const points = series.points();
  t.true(points.length > 400 && points.length <= 1002, `${points.length} points`);
  t.deepEqual(points[0], [0, 0]);
  t.deepEqual(points.at(-1), [99_999, 49_999.5]);
  const steps = points.slice(0, -1).map(([step = 0]) => step);
  const gaps = new Set(steps.slice(1).map((step, at) => step - (steps[at] ?? 0)));
  t.is(gaps.size, 1, "points are equally spaced");
});

test("each part of a step belongs to one stage, so that the stages add up to the step", (t) => {
  const parts = stageGroups.flatMap((group) => group.parts);
  t.deepEqual([...parts].sort(), ["computing", "sendingIds", ...waitedFor].sort());
  const shares = stageSharesOf({ computing: 0.5, batch: 0.25, rows: 0.125, losses: 0.125 });
  t.is(
    shares.reduce((sum, one) => sum + one, 0),
    1,
  );
});

test("recomputed steps are compared where the same step was reported both times", (t) => {
  const check = new ReplayCheck();
  const last = () => check.found.at(-1) as Replay;
  check.begin(0);
  for (const step of [10, 20, 30]) check.note("loss", step, step / 3);
  t.deepEqual(check.found, []);
  t.is(replaySummary(check.found), undefined);
  check.begin(10);
  t.false(check.note("loss", 10, 1).isAgain, "the checkpoint's own step is not computed again");
  t.is(replaySentence(last()), "Steps 11 to 30 are being computed again: none compared yet");
  t.is(replayKind(last()), "open");
  t.true(check.note("loss", 15, 5).isAgain);
  t.deepEqual(check.note("loss", 20, 20 / 3), { isAgain: true, isDifferent: false });
  check.note("evaluation", 20, 1);
  t.like(last(), { from: 11, to: 30, compared: 1, different: 0, isOver: false });
  t.is(replayKind(last()), "good");
  t.true(check.note("loss", 30, 10 + Number.EPSILON * 8).isDifferent);
  t.like(last(), { compared: 2, different: 1, isOver: true });
  t.is(
    replaySentence(last()),
    "Steps 11 to 30 were computed again: different at 1 of 2 compared steps",
  );
  t.false(check.note("loss", 40, 1).isAgain, "step 40 was not done before");
  // Another recovery starts another stretch; without compared steps, its sentence claims nothing.
  check.begin(39);
  check.note("loss", 41, 1);
  t.is(
    replaySentence(last()),
    "Step 40 was computed again: no step was reported both times, so none is compared",
  );
  t.deepEqual(replaySummary(check.found), {
    text: "2 stretches of steps computed again: different at 1 of 2 compared steps",
    kind: "bad",
  });
});

test("each metric has its curve, last and best value; a step counts once", (t) => {
  const metrics = (auc: number, calibration: number) => ({
    ...{ auc, logLoss: 1 - auc, normalizedEntropy: Number.NaN, calibration },
  });
  const found = metricsOf([
    { step: 20, metrics: metrics(0.75, 0.9) },
    { step: 10, metrics: metrics(0.7, 1.2) },
    { step: 20, metrics: metrics(0.75, 0.9) },
    { step: 30, metrics: metrics(0.68, 0.5) },
  ]);
  t.deepEqual(
    found.map(({ id, curves }) => [id, curves[0]?.best, curves[0]?.last.value]),
    [
      ["auc", { step: 20, value: 0.75 }, 0.68],
      ["logloss", { step: 20, value: 0.25 }, 1 - 0.68],
      ["calibration", { step: 20, value: 0.9 }, 0.5],
    ],
  );
  t.is(found[0]?.curves[0]?.points.length, 3);
  const tasks = { click: metrics(0.6, 1), buy: metrics(0.8, 1) };
  const ofTasks = metricsOf([{ step: 1, metrics: { ...metrics(0.6, 1), tasks } }]);
  t.deepEqual(
    ofTasks[0]?.curves.map(({ task, last }) => [task, last.value]),
    [
      ["click", 0.6],
      ["buy", 0.8],
    ],
  );
});

test("every compared metric is shown, and its best value is the one that training calls best", (t) => {
  for (const name of comparedMetric.options) {
    const shown = shownMetrics.find((one) => one.name === name);
    t.is(shown?.best, isHigherBetter(name) ? "highest" : "lowest", name);
  }
});

test("a line break between a word and an element is a space, and between tags nothing", (t) => {
  const strings = [
    "<p>from ",
    "\n  <span>now</span> without\n  <code>x</code>\n  <b>y</b>\n</p>\n",
  ];
  t.deepEqual(withBlanks(strings), [
    "<p>from ",
    " <span>now</span> without <code>x</code><b>y</b></p>",
  ]);
  t.deepEqual(withBlanks(["\n<ul>", "\n</ul>\n"]), ["<ul>", " </ul>"]);
});

test("a job is summarised in a few lines of known facts, and two jobs by differences", (t) => {
  const options = [
    ...[
      ["model.kind", "dlrm"],
      ["data.kind", "csv"],
      ["data.paths", "clicks.csv"],
    ],
    ...[
      ["data.batchSize", "1024"],
      ["data.passes", "2"],
      ["model.tables", "1 table, 9 rows, dimension 16: a"],
    ],
    ...[
      ["optimizer.dense.kind", "adam"],
      ["optimizer.dense.learningRate", "0.001"],
    ],
  ].map(([option = "", value = ""]) => ({ option, value }));
  t.deepEqual(jobLines(options), [
    ["Model", "dlrm"],
    ["Tables", "1 table, 9 rows, dimension 16: a"],
    ["Data", "csv: clicks.csv"],
    ["Batch", "1,024 samples, 2 epochs"],
    ["Dense layers", "adam, rate 0.001"],
  ]);
  t.deepEqual(jobLines([]), []);
  const prepared = { samples: 900, heldOut: 90, quarantined: 10 } as never;
  t.deepEqual(dataLines({ prepared }), [
    ["Samples", "900 for training, 90 for evaluation"],
    ["Bad lines", "10 left out as unreadable, 1.0 %"],
  ]);
  const other = options.slice(0, -1).concat({ option: "seed", value: "2" });
  t.deepEqual(differingOptions(options, other), [
    { option: "optimizer.dense.learningRate", values: ["0.001", ""] },
    { option: "seed", values: ["", "2"] },
  ]);
});

test("a job is read from YAML and from JSON, long ids exactly", (t) => {
  const job = { name: "a", model: { kind: "dlrm" }, ids: ["1474671338756698595"] };
  t.deepEqual(jobOfText("name: a\nmodel: {kind: dlrm}\nids: [1474671338756698595]\n"), job);
  t.deepEqual(jobOfText('{"name":"a","model":{"kind":"dlrm"},"ids":[1474671338756698595]}'), job);
  t.deepEqual(jobOfText("{name: a}"), { name: "a" });
  t.throws(() => jobOfText("- a\n- b"), { message: /^Expected a job with `model`/ });
  t.throws(() => jobOfText("a: [1"), { message: /^The job is neither YAML nor JSON: / });
});

test("times are shown in one form: year first, 24 hours", (t) => {
  t.is(momentText(new Date(2026, 0, 2, 15, 4, 5)), "2026-01-02 15:04:05");
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

test("the phases of an incident are contiguous, from the silence to the step reached", (t) => {
  const waits = [{ waiter: "device:0", awaited: "device:1", what: "rows", forMs: 300 }];
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
/** A progress event. `told`: earlier steps whose losses the event reports as well. */
const progress = (seq: number, step: number, loss = 1 / step, told: readonly number[] = []) =>
  event(seq, "run.progress", {
    ...{ step, steps: 40, loss, samplesPerSecond: 10, repairedIds: [] },
    losses: told.map((one) => ({ step: one, loss: 1 / one })),
  });

test("a run's story has its recomputed steps, its incidents, and when it caught up", (t) => {
  const story = new RunStory("r1");
  const events = [
    event(0, "run.queued", { name: "<i>job</i>" }),
    event(1, "run.started", { fromStep: 0, steps: 40, devices: 2 }),
    progress(2, 10),
    event(3, "run.checkpointed", { step: 20, digest: "a" }),
    progress(4, 25, 1 / 25, [22, 24]),
    event(5, "run.incident", { ...record, end: undefined, actions: undefined }),
    event(6, "run.started", { fromStep: 20, steps: 40, devices: 2 }),
    event(7, "run.recovered", { fromStep: 20, incidents: [record] }),
    progress(8, 25, 1 / 25, [21, 22, 24]),
    progress(9, 30),
    event(10, "run.scaled", { from: 2, to: 1, step: 30, seconds: 1 }),
  ];
  for (const one of events) story.take({ event: one, atMs: Date.parse(record.at) + 100 * one.seq });
  for (const one of events) story.take({ event: one, atMs: 0 }); // R1
  t.is(story.name, "<i>job</i>");
  t.deepEqual(
    story.loss.points().map(([step]) => step),
    [10, 25, 30],
  );
  t.deepEqual(story.different.points(), [], "equal losses are not drawn again");
  t.like(story.replays[0], { from: 21, to: 25, compared: 3, different: 0, isOver: true });
  t.deepEqual(story.marks, [
    { step: 25, text: "device:1 failed", isFailure: true },
    { step: 30, text: "2 to 1 devices", isFailure: false },
  ]);
  t.is(story.incidents[0]?.caughtUpAtMs, Date.parse(record.at) + 800);
  t.is(story.state, "running");
  t.is(story.reached, "30 of 40");
  // A directory does not tell the steps of the whole run: it may have been killed.
  const kept = { directory: "run", step: 1800, digest: "", arithmetic: "", generation: 2 };
  const onDisk = new RunStory("r2");
  onDisk.takeKept({ ...kept, history: [], lines: [] });
  t.is(onDisk.reached, "1,800");
});

test("a figure that differs after a recovery is reported", (t) => {
  const story = new RunStory("r1");
  const events = [
    event(0, "run.started", { fromStep: 0, steps: 40, devices: 2 }),
    progress(1, 25),
    event(2, "run.started", { fromStep: 20, steps: 40, devices: 2 }),
    progress(3, 25, 0.040_000_001),
  ];
  for (const one of events) story.take({ event: one });
  t.like(story.replays[0], { compared: 1, different: 1 });
  t.deepEqual(story.different.points(), [[25, 0.040_000_001]]);
});
