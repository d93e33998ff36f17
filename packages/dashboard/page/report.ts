// A report: one file with the page, its styles, and the embedded events of one run. It sends no
// requests. `#chart=NAME` in its address shows one chart alone, to take a picture of it, and
// `&height=PIXELS` sets the picture's height.

import { sliceTables, type TextTable } from "../../../cli/views/evaluation-tables.ts";
import type { ReportData } from "../server/page-api.ts";
import { html, Moment, render } from "./dom.ts";
import { RunStory } from "./model/run-story.ts";
import { Store } from "./store.ts";
import { IncidentsView } from "./views/incidents-view.ts";
import { PlanView, planOf } from "./views/plan-view.ts";
import { RunView } from "./views/run-view.ts";
import { hasTiers, TiersView } from "./views/tiers-view.ts";

/** Draws the report that is embedded in this page; false where there is none. */
export function openReport(place: HTMLElement): boolean {
  const data = document.getElementById("report-data")?.textContent;
  if (data === undefined || data === null) return false;
  const report = JSON.parse(data) as ReportData;
  const story = new RunStory(report.run);
  for (const timed of report.events) story.take(timed);
  if (report.kept !== undefined) story.takeKept(report.kept);
  if (story.name === "") story.name = report.name;
  story.options = report.options;
  const store = new Store(true);
  const draw = () => {
    const [, only] = /chart=([a-z0-9]+)/.exec(location.hash) ?? [];
    const [, height] = /height=(\d+)/.exec(location.hash) ?? [];
    document.body.dataset.only = only ?? "";
    document.body.dataset.height = height ?? "";
    render(html`<${Report} ...${{ report, story, store }} />`, place);
    for (const chart of document.querySelectorAll<HTMLElement>(".chart")) {
      chart.classList.toggle("only", chart.id === `chart-${only}`);
    }
  };
  store.open(draw);
  addEventListener("hashchange", draw);
  draw();
  return true;
}

interface Props {
  readonly report: ReportData;
  readonly story: RunStory;
  readonly store: Store;
}

/** Metrics of the model for each value of a column. */
function Slices({ table: [head = [], ...rows] }: { readonly table: TextTable }) {
  const [title, ...figures] = head;
  return html`<section class="panel"><h2>${title}</h2><div class="scroll"><table>
    <thead><tr><th>value</th>${figures.map((name) => html`<th>${name}</th>`)}</tr></thead>
    <tbody>${rows.map((cells) => html`<tr>${cells.map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody>
  </table></div></section>`;
}

function Report({ report, story, store }: Props) {
  return html`<header><h1>Osiris report</h1><span class="dim">run ${report.run}, made at <${Moment} atMs=${Date.parse(report.madeAt)} /></span></header>
    <main id="main">
      <${RunView} ...${{ store, story }} />
      ${planOf(story) === undefined ? null : html`<${PlanView} ...${{ store, story }} />`}
      ${hasTiers(story) ? html`<${TiersView} ...${{ store, story }} />` : null}
      ${sliceTables(report.slices ?? []).map((table) => html`<${Slices} table=${table} />`)}
      ${story.kept === undefined ? html`<${IncidentsView} story=${story} />` : null}
      <section class="panel"><h2>Environment</h2><dl class="lines">${report.environment.map(
        ([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`,
      )}</dl></section>
    </main>`;
}
