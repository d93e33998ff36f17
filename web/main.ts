// The dashboard's page: its frame, and which view is shown, by the address behind the `#`:
//
//   #/runs   #/run/RUN   #/tree   #/incidents/RUN
//   #/tiers/RUN   #/plan/RUN   #/hosts   #/chaos/RUN
//
// A report file is the same page with its events inside it instead of a stream (report.ts).

import { html, render } from "./dom.ts";
import { openReport } from "./report.ts";
import { Store } from "./store.ts";
import { ChaosView, HostsView } from "./views/cluster-views.ts";
import { IncidentsView } from "./views/incidents-view.ts";
import { PlanView } from "./views/plan-view.ts";
import { RunView } from "./views/run-view.ts";
import { RunsView } from "./views/runs-view.ts";
import { TiersView } from "./views/tiers-view.ts";
import { TreeView } from "./views/tree-view.ts";

const views = [
  { name: "runs", title: "Runs", isOfRun: false },
  { name: "run", title: "Run", isOfRun: true },
  { name: "tree", title: "Tree", isOfRun: false },
  { name: "incidents", title: "Incidents", isOfRun: true },
  { name: "tiers", title: "Tiers", isOfRun: true },
  { name: "plan", title: "Plan", isOfRun: true },
  { name: "hosts", title: "Hosts", isOfRun: false },
  { name: "chaos", title: "Chaos", isOfRun: true },
] as const;

type ViewName = (typeof views)[number]["name"];

/** The run that was looked at last. */
let lastRun = "";

/** The view and the run that the address names. */
function placeOf(store: Store): { readonly view: ViewName; readonly run: string } {
  const [, name = "", run = ""] = location.hash.split("/");
  const view = views.find((one) => one.name === name)?.name ?? "runs";
  if (run !== "") lastRun = decodeURIComponent(run);
  const running = store.runs.findLast(({ status }) => status === "running") ?? store.runs.at(-1);
  return { view, run: lastRun || (running?.run ?? "") };
}

function linkTo(view: string, run: string): string {
  return run === "" ? `#/${view}` : `#/${view}/${encodeURIComponent(run)}`;
}

function Page({ store }: { readonly store: Store }) {
  const { view, run } = placeOf(store);
  const { hello, isConnected, notice } = store;
  const isOfRun = views.some(({ name, isOfRun: own }) => own && name === view);
  return html`<a class="skip" href="#main" onClick=${(event: Event) => {
    event.preventDefault();
    document.getElementById("main")?.focus();
  }}>Skip to content</a>
    <header><h1>Osiris</h1>
      <span class="dim">${hello === undefined ? "" : `cluster ${hello.cluster}${hello.tenant === null ? "" : `, tenant ${hello.tenant}`}`}</span>
      <span role="status" class=${isConnected ? "live on" : "live off"}>${isConnected ? "live" : "reconnecting …"}</span>
    </header>
    <nav aria-label="Views"><ul>${views.map(
      ({
        name,
        title,
        isOfRun: own,
      }) => html`<li key=${name}><a href=${linkTo(name, own ? run : "")}
        aria-current=${name === view ? "page" : undefined}>${title}</a></li>`,
    )}</ul></nav>
    ${
      notice === ""
        ? null
        : html`<p class="notice" role="alert">${notice} <button type="button" class="small" onClick=${() => {
            store.notice = "";
            store.drawNow();
          }}>Dismiss</button></p>`
    }
    <main id="main" tabIndex="-1">
      ${isOfRun ? html`<${RunChoice} store=${store} view=${view} run=${run} />` : null}
      ${shownView(store, view, run)}
    </main>`;
}

/** The run whose view is shown. */
function RunChoice({
  store,
  view,
  run,
}: {
  readonly store: Store;
  readonly view: string;
  readonly run: string;
}) {
  const runs = store.runs.slice(-100).reverse();
  return html`<div class="bar"><label>Run <select value=${run} onChange=${(event: Event) => {
    location.hash = linkTo(view, (event.target as HTMLSelectElement).value);
  }}>${runs.map((one) => html`<option key=${one.run} value=${one.run}>${one.run} – ${one.name} (${one.status})</option>`)}
    ${runs.some((one) => one.run === run) ? null : html`<option value=${run}>${run}</option>`}</select></label></div>`;
}

function shownView(store: Store, view: ViewName, run: string) {
  if (view === "runs")
    return html`<${RunsView} store=${store} open=${(one: string) => {
      lastRun = one;
    }} />`;
  if (view === "tree") return html`<${TreeView} store=${store} />`;
  if (view === "hosts") return html`<${HostsView} store=${store} />`;
  if (run === "")
    return html`<p class="empty">No runs yet. Submit one: <code>osiris submit JOB</code></p>`;
  const story = store.story(run);
  if (view === "run") return html`<${RunView} key=${run} ...${{ store, story }} />`;
  if (view === "incidents") return html`<${IncidentsView} story=${story} />`;
  if (view === "tiers") return html`<${TiersView} key=${run} ...${{ store, story }} />`;
  if (view === "plan") return html`<${PlanView} key=${run} ...${{ store, story }} />`;
  return html`<${ChaosView} key=${run} ...${{ store, story }} />`;
}

function begin(): void {
  const place = document.getElementById("page");
  if (place === null) return;
  if (openReport(place)) return;
  const store = new Store();
  const draw = () => render(html`<${Page} store=${store} />`, place);
  store.open(draw);
  addEventListener("hashchange", draw);
  draw();
}

begin();
