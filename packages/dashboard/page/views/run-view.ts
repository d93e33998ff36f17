// One run: its curves, the time of its steps by stage, and its events.

import { count, duration, figure, metric, percent } from "../../../../cli/support/format.ts";
import { sharingOf } from "../../../../src/data/columnar/value-watch.ts";
import { Chart, type ChartEvent, type Curve, joined, ordered, short } from "../charts.ts";
import { html, Moment, type VNode } from "../dom.ts";
import { dataLines, jobLines } from "../model/job-lines.ts";
import { type FoundMetric, metricsOf } from "../model/metric-curves.ts";
import { replaySummary } from "../model/replay.ts";
import { type RunStory, stageGroups, stageSharesOf } from "../model/run-story.ts";
import type { Store } from "../store.ts";
import { InTurn } from "../turns.ts";

interface Props {
  readonly store: Store;
  readonly story: RunStory;
}

/** Most event lines that are drawn. */
const linesMax = 60;

export function RunView({ store, story }: Props) {
  return html`<section aria-labelledby="run-title">
    <h2 id="run-title">${story.name || story.run} <span class=${`state ${story.state}`}>${story.state}</span></h2>
    <${Figures} ...${{ store, story }} />
    <div class="charts">
      ${chartsOf(story).map(
        ([key, draw]) => html`<${InTurn} key=${key} isNow=${store.isFile} draw=${draw} />`,
      )}
    </div>
    <${JobPanel} ...${{ store, story }} />
    <${KeptStages} story=${story} />
    <${Stragglers} story=${story} />
    <${Result} story=${story} />
    <${Values} story=${story} />
    <${Lines} story=${story} isFile=${store.isFile} />
  </section>`;
}

/** The functions that draw the charts, by key. */
function chartsOf(story: RunStory): readonly (readonly [key: string, draw: () => VNode | null])[] {
  return [
    ["loss", () => lossChart(story)],
    ...metricsOf(story.evaluations).map((metric) => {
      return [metric.id, () => metricChart(metric, story)] as const;
    }),
    ["stages", () => stageChart(story)],
    ["stall", () => stallChart(story)],
    ["rates", () => rateChart(story)],
    ["speed", () => speedChart(story)],
  ];
}

/** The run's figures; a report file leaves out unknown ones. */
function Figures({ store, story }: Props) {
  const { samplesPerSecond, progress, evaluations, generation } = story;
  const stall = story.stalls.last?.[1];
  const left = progress?.secondsLeft ?? Number.NaN;
  const isLive = story.state === "running";
  const loss = progress?.loss ?? story.loss.last?.[1];
  // The first metric is AUC, or RMSE where the label is a number.
  const [found] = metricsOf(evaluations);
  const figures: readonly [name: string, value: string, note?: string][] = [
    ["Step", story.reached],
    ["Loss", metric(loss)],
    found === undefined
      ? ["AUC", "–"]
      : [`${found.title}, last`, metric(found.curves[0]?.last.value), bestNote(found)],
    ["Samples/s", samplesPerSecond > 0 ? count(samplesPerSecond) : "–"],
    ["Time left", isLive ? duration(left) : "–"],
    ["Input stall", stall === undefined ? "–" : percent(stall)],
    ["Devices", String(story.started?.devices ?? "–")],
    ["Generation", String(generation)],
  ];
  const known = store.isFile ? figures.filter(([, value]) => value !== "–") : figures;
  return html`<dl class="figures">${known.map(
    ([name, value, note]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd>
      ${note === undefined ? null : html`<dd class="note">${note}</dd>`}</div>`,
  )}</dl>`;
}

function bestNote({ curves: [curve] }: FoundMetric): string {
  if (curve === undefined) return "";
  return `best ${metric(curve.best.value)} at step ${count(curve.best.step)}`;
}

/** Marks and shaded stretches of charts over steps. */
function happened({ marks, replays }: RunStory) {
  const events = marks.map(({ step: x, text, isFailure }): ChartEvent => ({ x, text, isFailure }));
  return { events, bands: replays };
}

/** The loss curve. Recomputed steps are shaded; a second curve shows only those that differ. */
function lossChart(story: RunStory) {
  const curves = [
    { label: "loss", points: story.loss.points() },
    { label: "computed again, different", points: story.different.points() },
  ].filter(({ points }) => points.length > 0);
  const { xs, values } = joined(curves);
  const mark = replaySummary(story.replays);
  const shown = curves.map(({ label }, at): Curve => {
    const curve = { label, values: values[at] ?? [] };
    return at === 0 ? curve : { ...curve, isDots: true };
  });
  return html`<${Chart} id="loss" title="Training loss" xLabel="step" xs=${xs} curves=${shown} mark=${mark} ...${happened(story)} />`;
}

/** A metric on an axis of its own, with its best value beside its last. */
function metricChart({ id, title, curves }: FoundMetric, story: RunStory) {
  const labelled = curves.map(({ task, points }) => ({ label: task || title, points }));
  const { xs, values } = joined(labelled);
  const shown = labelled.map(({ label }, at): Curve => {
    return { label, values: values[at] ?? [], isDots: true };
  });
  const figures = curves.map(({ task, last, best }) => {
    const of = task === "" ? "" : `${task}: `;
    return `${of}last ${short(last.value)}, best ${short(best.value)} at step ${count(best.step)}`;
  });
  const mark = { text: figures.join("; "), kind: "open" };
  return html`<${Chart} key=${id} ...${{ id, title, xs, mark, ...happened(story) }} xLabel="step" curves=${shown} />`;
}

function stageChart(story: RunStory) {
  const points = ordered(story.stages.points());
  if (points.length === 0) return null;
  const xs = points.map(([step = 0]) => step);
  const curves = stageGroups.map(({ name }, at) => ({
    label: name,
    values: points.map((point) => point[at + 1] ?? 0),
  }));
  // The first steps compile programs and take a hundred times as long: they would dwarf the others.
  const sums = points.map(([, ...parts]) => parts.reduce((sum, part) => sum + part, 0));
  const usual = [...sums].sort((a, b) => a - b)[Math.floor(0.95 * (sums.length - 1))] ?? 0;
  const isCut = Math.max(...sums) > 3 * usual;
  const cut = isCut
    ? { yMax: 1.5 * usual, mark: { text: "higher peaks cut off", kind: "open" } }
    : {};
  return html`<${Chart} id="stages" title="Time of a step, by stage" xLabel="step" isStacked unit=" ms" ...${{ xs, curves, ...cut }} />`;
}

function stallChart(story: RunStory) {
  const points = ordered(story.stalls.points());
  if (points.length === 0) return null;
  const xs = points.map(([step = 0]) => step);
  const values = points.map(([, share = 0]) => 100 * share);
  const curves = [{ label: "waiting for a batch", values }];
  return html`<${Chart} id="stall" title="Input stall" xLabel="step" unit=" %" ...${{ xs, curves }} />`;
}

function rateChart(story: RunStory) {
  const points = ordered(story.rates.points());
  if (points.length === 0) return null;
  const xs = points.map(([step = 0]) => step);
  const curves = ["dense", "sparse"].map((label, at) => ({
    label,
    values: points.map((point) => point[at + 1] ?? null),
  }));
  return html`<${Chart} id="rates" title="Learning rate" xLabel="step" ...${{ xs, curves }} />`;
}

function speedChart(story: RunStory) {
  const points = ordered(story.speed.points());
  if (points.length === 0) return null;
  const xs = points.map(([step = 0]) => step);
  const curves = [{ label: "samples/s", values: points.map(([, speed = 0]) => speed) }];
  return html`<${Chart} id="speed" title="Samples per second" xLabel="step" ...${{ xs, curves }} />`;
}

/** For a run known only by its directory: the mean stages over all steps, or why there are none. */
function KeptStages({ story }: { readonly story: RunStory }) {
  if (story.kept === undefined) return null;
  const { times } = story.kept;
  if (times === undefined)
    return html`<section class="panel" id="kept-stages"><h3>Time of a step, by stage</h3>
      <p>This directory's log tells no times of steps: its run has not ended, or ended on another version of Osiris.</p></section>`;
  const shares = stageSharesOf(times.shares);
  return html`<section class="panel" id="kept-stages"><h3>Time of a step, by stage</h3>
    <p>${figure(times.stepMs)} ms, the mean of ${count(times.steps)} steps</p>
    <dl class="lines">${stageGroups.map(({ name }, at) => {
      const share = shares[at] ?? 0;
      return html`<dt>${name}</dt><dd><meter min="0" max="1" value=${share} aria-label=${`Share of ${name}`}></meter>
        ${figure(share * times.stepMs)} ms, ${percent(share)}</dd>`;
    })}</dl></section>`;
}

function Stragglers({ story }: { readonly story: RunStory }) {
  const { stragglers } = story;
  if (stragglers.length === 0) return null;
  const worst = new Map(stragglers.map((one) => [one.device, one]));
  return html`<section class="panel"><h3>Stragglers</h3><ul>${[...worst.values()].map(
    ({ device, host, factor }) =>
      html`<li key=${device}>device:${device} of host:${host}: ${factor.toFixed(1)} times as long as the others</li>`,
  )}</ul></section>`;
}

/** The result of the run, and the command that verifies it. */
function Result({ story }: { readonly story: RunStory }) {
  const { finished, failed } = story;
  if (failed !== undefined)
    return html`<section class="panel"><h3>Failed</h3><p>${failed.error.message}</p></section>`;
  const result = finished?.result ?? story.kept;
  if (result === undefined) return null;
  return html`<section class="panel"><h3>Result</h3>
    <dl class="lines">
      <dt>Digest</dt><dd><code>${result.digest}</code></dd>
      ${metricsOf(story.evaluations).flatMap(({ title, curves }) =>
        curves.map(({ task, last, best }) => {
          const name = task === "" ? title : `${title}, ${task}`;
          const first = best.step === last.step ? "last and best" : "last";
          const better =
            best.step === last.step
              ? ""
              : `, best ${metric(best.value)} at step ${count(best.step)}`;
          return html`<dt>${name}</dt><dd>${first} ${metric(last.value)}${better}</dd>`;
        }),
      )}
      <dt>Steps</dt><dd>${count(result.step)}</dd>
      <dt>Arithmetic</dt><dd>${result.arithmetic}</dd>
      <dt>Checkpoint</dt><dd><code>${result.directory}</code></dd>
      <dt>Verify</dt><dd><code>osiris verify ${result.directory}</code> trains an interval again and compares every bit</dd>
    </dl></section>`;
}

/** Hashed columns, whose values may share rows of their tables. */
function Values({ story }: { readonly story: RunStory }) {
  const values = story.prepared?.values ?? [];
  if (values.length === 0) return null;
  return html`<section class="panel"><h3>Values of hashed columns</h3>
    <dl class="lines">${values.map(
      (own) => html`<dt key=${own.column}>${own.column}</dt><dd>${sharingOf(own)}</dd>`,
    )}</dl></section>`;
}

function Lines({ story, isFile }: { readonly story: RunStory; readonly isFile: boolean }) {
  const lines = story.lines.slice(-linesMax).reverse();
  if (lines.length === 0) return null;
  return html`<section class="panel"><h3>What happened</h3>
    <ul class="log" aria-live=${isFile ? "off" : "polite"}>${lines.map(
      ({ seq, atMs, level, text }) => html`<li key=${seq} class=${level}>
        ${atMs === undefined ? html`<span class="dim">event ${seq}</span>` : html`<${Moment} atMs=${atMs} />`} ${text}</li>`,
    )}</ul></section>`;
}

/** The job and its data; unknown parts are left out. */
export function JobPanel({ store, story }: Props) {
  const options = store.optionsOf(story);
  const lines = [...jobLines(options ?? []), ...dataLines(story)];
  if (lines.length === 0) return null;
  return html`<section class="panel" id="job"><h3>Job and data</h3>
    <dl class="lines">${lines.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>
    ${
      options === undefined || options.length === 0
        ? null
        : html`<details><summary>All ${count(options.length)} options</summary>
      <dl class="lines">${options.map(({ option, value }) => html`<dt><code>${option}</code></dt><dd><code>${value}</code></dd>`)}</dl></details>`
    }</section>`;
}
