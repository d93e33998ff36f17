// Compares two runs: their results, metric by metric, their curves over the same axes, and the
// options of their jobs that differ.

import { count, metric } from "../../../../cli/support/format.ts";
import { Chart, type Curve, joined } from "../charts.ts";
import { html } from "../dom.ts";
import { differingOptions, type Options } from "../model/job-lines.ts";
import { type MetricCurve, metricsOf, shownMetrics } from "../model/metric-curves.ts";
import type { RunStory } from "../model/run-story.ts";
import type { Store } from "../store.ts";

interface Props {
  readonly store: Store;
  readonly story: RunStory;
  /** The run to compare with; undefined where there is no other run. */
  readonly other: RunStory | undefined;
}

type Pair = readonly [RunStory, RunStory];

export function CompareView({ store, story, other }: Props) {
  if (other === undefined)
    return html`<section aria-labelledby="compare-title"><h2 id="compare-title">Compare</h2>
      <p class="empty">There is one run only: a second one can be compared with it.</p></section>`;
  const pair = [story, other] as const;
  const [options, others] = [store.optionsOf(story), store.optionsOf(other)];
  return html`<section aria-labelledby="compare-title"><h2 id="compare-title">${titleOf(story)} beside ${titleOf(other)}</h2>
    <${Ends} pair=${pair} />
    <div class="charts">${chartsOf(pair)}</div>
    ${
      options === undefined || others === undefined
        ? html`<p class="empty">The options of both jobs are being requested …</p>`
        : html`<${Differences} pair=${pair} options=${options} others=${others} />`
    }
  </section>`;
}

const titleOf = ({ name, run }: RunStory) => (name === "" ? run : `${name} (${run})`);

function Ends({ pair }: { readonly pair: Pair }) {
  const rows: (readonly [string, readonly string[]])[] = [
    ["State", pair.map(({ state }) => state)],
    ["Steps", pair.map(({ reached }) => reached)],
    ["Loss, last", pair.map(({ loss }) => metric(loss.last?.[1]))],
  ];
  for (const { title, curves } of curvesBeside(pair)) {
    rows.push([title, curves.map(figures)]);
  }
  const digests = pair.map(({ finished, kept }) => finished?.result.digest ?? kept?.digest ?? "–");
  rows.push(["Digest of the model", digests]);
  return html`<div class="scroll"><table class="cards"><thead><tr><th scope="col"></th>
      ${pair.map((story) => html`<th scope="col">${titleOf(story)}</th>`)}</tr></thead>
    <tbody>${rows.map(
      ([name, values]) => html`<tr key=${name}><th scope="row">${name}</th>
      ${values.map((value, at) => html`<td class="name" data-label=${titleOf(pair[at] ?? pair[0])}>${value}</td>`)}</tr>`,
    )}</tbody></table></div>`;
}

function figures(curve: MetricCurve | undefined): string {
  if (curve === undefined) return "–";
  const { last, best } = curve;
  return `last ${metric(last.value)}, best ${metric(best.value)} at step ${count(best.step)}`;
}

/** Each metric and task that either run has, with the curves of both. */
function curvesBeside(pair: Pair) {
  const found = pair.map(({ evaluations }) => metricsOf(evaluations));
  return shownMetrics.flatMap(({ name, id, title }) => {
    const curvesOfRuns = found.map((all) => all.find((one) => one.name === name)?.curves ?? []);
    const tasks = [...new Set(curvesOfRuns.flat().map(({ task }) => task))];
    return tasks.map((task) => ({
      id: task === "" ? id : `${id}-${task}`,
      title: task === "" ? title : `${title}, ${task}`,
      curves: curvesOfRuns.map((curves) => curves.find((one) => one.task === task)),
    }));
  });
}

function chartsOf(pair: Pair) {
  const chart = (id: string, title: string, points: readonly MetricCurve["points"][]) => {
    const labelled = points.map((own, at) => ({
      label: titleOf(pair[at] ?? pair[0]),
      points: own,
    }));
    const { xs, values } = joined(labelled);
    const curves = labelled.map(({ label }, at): Curve => {
      return { label, values: values[at] ?? [], ...(at === 1 ? { dash: [6, 4] } : {}) };
    });
    return html`<${Chart} key=${id} ...${{ id, title, xs, curves }} xLabel="step" />`;
  };
  const losses = pair.map(({ loss }) => loss.points() as MetricCurve["points"]);
  return [
    chart("loss", "Training loss", losses),
    ...curvesBeside(pair).map(({ id, title, curves }) => {
      const points = curves.map((curve) => curve?.points ?? []);
      return chart(id, title, points);
    }),
  ];
}

function Differences({
  pair,
  options,
  others,
}: {
  readonly pair: Pair;
  readonly options: Options;
  readonly others: Options;
}) {
  const differing = differingOptions(options, others);
  if (differing.length === 0)
    return html`<section class="panel"><h3>Options that differ</h3><p>None: both jobs are the same.</p></section>`;
  return html`<section class="panel"><h3>Options that differ</h3><div class="scroll"><table class="cards">
    <thead><tr><th scope="col">Option</th>${pair.map((story) => html`<th scope="col">${titleOf(story)}</th>`)}</tr></thead>
    <tbody>${differing.map(
      ({ option, values }) => html`<tr key=${option}><th scope="row"><code>${option}</code></th>
      ${values.map((value, at) => html`<td class="name" data-label=${titleOf(pair[at] ?? pair[0])}><code>${value === "" ? "–" : value}</code></td>`)}</tr>`,
    )}</tbody></table></div></section>`;
}
