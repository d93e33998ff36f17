// One run: its curves, where the time of its steps goes, and what happened.

import { count, duration, metric, percent } from "../../cli/support/format.ts";
import { sharingOf } from "../../src/data/columnar/value-watch.ts";
import { Chart, type Curve, joined, ordered } from "../charts.ts";
import { html } from "../dom.ts";
import { replayKind, replayMark } from "../model/replay.ts";
import type { RunStory } from "../model/run-story.ts";
import { stageGroups, stageSharesOf } from "../model/stages.ts";
import type { Store } from "../store.ts";
import { InTurn } from "../turns.ts";

interface Props {
  readonly store: Store;
  readonly story: RunStory;
}

/** Lines of what happened that are drawn. */
const linesMax = 60;

export function RunView({ store, story }: Props) {
  return html`<section aria-labelledby="run-title">
    <h2 id="run-title">${story.name || story.run} <span class=${`state ${story.state}`}>${story.state}</span></h2>
    <${Figures} story=${story} />
    <div class="charts">
      ${runCharts.map(
        (chart, at) => html`<${InTurn} key=${at} isNow=${store.isFile}
        draw=${() => html`<${chart} story=${story} />`} />`,
      )}
    </div>
    <${KeptStages} story=${story} />
    <${Stragglers} story=${story} />
    <${Result} story=${story} />
    <${Values} story=${story} />
    <${Lines} story=${story} isFile=${store.isFile} />
  </section>`;
}

const runCharts = [LossChart, MetricsChart, StageChart, StallChart, RateChart, SpeedChart];

function Figures({ story }: { readonly story: RunStory }) {
  const { step, steps, samplesPerSecond, progress, evaluations, generation } = story;
  const stall = story.stalls.last?.[1];
  const left = ((progress?.times?.stepMs ?? Number.NaN) / 1000) * (steps - step);
  const auc = evaluations.at(-1)?.metrics.auc;
  const isLive = story.state === "running";
  const figures: readonly [string, string][] = [
    ["Step", `${count(step)} of ${count(steps)}`],
    ["Loss", metric(progress?.loss ?? null)],
    ["AUC", metric(auc)],
    ["Samples/s", samplesPerSecond > 0 ? count(samplesPerSecond) : "–"],
    ["Time left", isLive ? duration(left) : "–"],
    ["Input stall", stall === undefined ? "–" : percent(stall)],
    ["Devices", String(story.started?.devices ?? "–")],
    ["Generation", String(generation)],
  ];
  return html`<dl class="figures">${figures.map(
    ([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`,
  )}</dl>`;
}

/** What was done again lies over what was done first. */
export function LossChart({ story }: { readonly story: RunStory }) {
  const curves = [
    { label: "loss", points: story.loss.points() },
    { label: "loss, done again", points: story.again.points() },
  ].filter(({ points }) => points.length > 0);
  const { xs, values } = joined(curves);
  const { replay } = story;
  const mark = replay && { text: replayMark(replay), kind: replayKind(replay) };
  const shown = curves.map(({ label }, at): Curve => {
    const own = { label, values: values[at] ?? [] };
    return at === 0 ? own : { ...own, dash: [6, 4] };
  });
  return html`<${Chart} id="loss" title="Training loss" xLabel="step" xs=${xs} curves=${shown} mark=${mark} />`;
}

function MetricsChart({ story }: { readonly story: RunStory }) {
  const { evaluations } = story;
  const names = ["auc", "gauc", "logLoss", "normalizedEntropy", "rmse"] as const;
  const found = names.filter((name) =>
    evaluations.some(({ metrics }) => Number.isFinite(metrics[name])),
  );
  if (found.length === 0) return null;
  const points = found.map((label) => ({
    label,
    points: evaluations.map(({ step, metrics }) => [step, metrics[label] ?? Number.NaN]),
  }));
  const { xs, values } = joined(points);
  const curves = found.map((label, at) => ({ label, values: values[at] ?? [], isDots: true }));
  return html`<${Chart} id="metrics" title="Evaluations" xLabel="step" ...${{ xs, curves }} />`;
}

function StageChart({ story }: { readonly story: RunStory }) {
  const points = ordered(story.stages.points());
  if (points.length === 0) return null;
  const xs = points.map(([step = 0]) => step);
  const curves = stageGroups.map(({ name }, at) => ({
    label: name,
    values: points.map((point) => point[at + 1] ?? 0),
  }));
  // The first steps compile programs and take a hundred times as long: they would hide the others.
  const sums = points.map(([, ...parts]) => parts.reduce((sum, part) => sum + part, 0));
  const usual = [...sums].sort((a, b) => a - b)[Math.floor(0.95 * (sums.length - 1))] ?? 0;
  const isCut = Math.max(...sums) > 3 * usual;
  const cut = isCut
    ? { yMax: 1.5 * usual, mark: { text: "higher peaks cut off", kind: "open" } }
    : {};
  return html`<${Chart} id="stages" title="Time of a step, by stage" xLabel="step" isStacked unit=" ms" ...${{ xs, curves, ...cut }} />`;
}

function StallChart({ story }: { readonly story: RunStory }) {
  const points = ordered(story.stalls.points());
  if (points.length === 0) return null;
  const xs = points.map(([step = 0]) => step);
  const values = points.map(([, share = 0]) => 100 * share);
  const curves = [{ label: "waiting for a batch", values }];
  return html`<${Chart} id="stall" title="Input stall" xLabel="step" unit=" %" ...${{ xs, curves }} />`;
}

function RateChart({ story }: { readonly story: RunStory }) {
  const points = ordered(story.rates.points());
  if (points.length === 0) return null;
  const xs = points.map(([step = 0]) => step);
  const curves = ["dense", "sparse"].map((label, at) => ({
    label,
    values: points.map((point) => point[at + 1] ?? null),
  }));
  return html`<${Chart} id="rates" title="Learning rate" xLabel="step" ...${{ xs, curves }} />`;
}

function SpeedChart({ story }: { readonly story: RunStory }) {
  const points = ordered(story.speed.points());
  if (points.length === 0) return null;
  const xs = points.map(([step = 0]) => step);
  const curves = [{ label: "samples/s", values: points.map(([, speed = 0]) => speed) }];
  return html`<${Chart} id="speed" title="Samples per second" xLabel="step" ...${{ xs, curves }} />`;
}

/** Of a run of which there is only its directory: the stages of all steps together, or why not. */
function KeptStages({ story }: { readonly story: RunStory }) {
  if (story.kept === undefined) return null;
  const { times } = story.kept;
  if (times === undefined)
    return html`<section class="panel" id="kept-stages"><h3>Time of a step, by stage</h3>
      <p>This directory's log tells no times of steps: its run has not ended, or ended on another version of Osiris.</p></section>`;
  const shares = stageSharesOf(times.shares);
  return html`<section class="panel" id="kept-stages"><h3>Time of a step, by stage</h3>
    <p>${times.stepMs.toPrecision(3)} ms, the mean of ${count(times.steps)} steps</p>
    <dl class="lines">${stageGroups.map(({ name }, at) => {
      const share = shares[at] ?? 0;
      return html`<dt>${name}</dt><dd><meter min="0" max="1" value=${share} aria-label=${`Share of ${name}`}></meter>
        ${(share * times.stepMs).toPrecision(3)} ms, ${percent(share)}</dd>`;
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

/** What came of it, and how anybody checks it. */
function Result({ story }: { readonly story: RunStory }) {
  const { finished, failed } = story;
  if (failed !== undefined)
    return html`<section class="panel"><h3>Failed</h3><p>${failed.error.message}</p></section>`;
  const result = finished?.result ?? story.kept;
  if (result === undefined) return null;
  const auc = finished?.result.auc ?? story.evaluations.at(-1)?.metrics.auc;
  return html`<section class="panel"><h3>Result</h3>
    <dl class="lines">
      <dt>Digest</dt><dd><code>${result.digest}</code></dd>
      <dt>AUC</dt><dd>${metric(auc)}</dd>
      <dt>Steps</dt><dd>${count(result.step)}</dd>
      <dt>Arithmetic</dt><dd>${result.arithmetic}</dd>
      <dt>Checkpoint</dt><dd><code>${result.directory}</code></dd>
      <dt>Verify</dt><dd><code>osiris verify ${result.directory}</code> trains an interval again and compares every bit</dd>
    </dl></section>`;
}

/** Columns whose values may share rows of their tables. */
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
        <span class="dim">${atMs === undefined ? `event ${seq}` : new Date(atMs).toLocaleTimeString()}</span> ${text}</li>`,
    )}</ul></section>`;
}
