// The dashboard's page: its frame, and the view that the address after the `#` selects:
//
//   #/runs   #/run/RUN   #/compare/RUN/OTHER   #/tree   #/incidents/RUN
//   #/tiers/RUN   #/plan/RUN   #/hosts   #/chaos/RUN
//
// A report file is the same page, with embedded events instead of a stream (report.ts).

import { html, render, useEffect } from "./dom.ts";
import { openReport } from "./report.ts";
import { Store } from "./store.ts";
import { ChaosView, HostsView } from "./views/cluster-views.ts";
import { CompareView } from "./views/compare-view.ts";
import { IncidentsView } from "./views/incidents-view.ts";
import { PlanView } from "./views/plan-view.ts";
import { RunView } from "./views/run-view.ts";
import { RunsView } from "./views/runs-view.ts";
import { TiersView } from "./views/tiers-view.ts";
import { TreeView } from "./views/tree-view.ts";

const views = [
  { name: "runs", title: "Runs", isOfRun: false },
  { name: "run", title: "Run", isOfRun: true },
  { name: "compare", title: "Compare", isOfRun: true },
  { name: "tree", title: "Tree", isOfRun: false },
  { name: "incidents", title: "Incidents", isOfRun: true },
  { name: "tiers", title: "Tiers", isOfRun: true },
  { name: "plan", title: "Plan", isOfRun: true },
  { name: "hosts", title: "Hosts", isOfRun: false },
  { name: "chaos", title: "Chaos", isOfRun: true },
] as const;

/** The run that was viewed last. */
let lastRun = "";

/** The view and the run that the address names, and the run to compare with. */
function placeOf(store: Store) {
  const [, name = "", run = "", second = ""] = location.hash.split("/");
  const view = views.find((one) => one.name === name)?.name ?? "runs";
  if (run !== "") lastRun = decodeURIComponent(run);
  const running = store.runs.findLast(({ status }) => status === "running") ?? store.runs.at(-1);
  const shown = lastRun || (running?.run ?? "");
  // The run to compare with is the newest other one, unless the address names one.
  const newest = store.runs.findLast((one) => one.run !== shown)?.run ?? "";
  return { view, run: shown, other: decodeURIComponent(second) || newest };
}

function linkTo(...parts: readonly string[]): string {
  return `#/${parts
    .filter((part) => part !== "")
    .map(encodeURIComponent)
    .join("/")}`;
}

function Page({ store }: { readonly store: Store }) {
  const { view, run, other } = placeOf(store);
  // Keeps the chosen view visible in the bar of views, which scrolls on a narrow screen.
  useEffect(() => {
    const chosen = document.querySelector("nav a[aria-current]");
    chosen?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [view]);
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
      ${
        isOfRun
          ? html`<div class="bar">
        <${RunChoice} store=${store} label="Run" run=${run} link=${(one: string) => linkTo(view, one)} />
        ${
          view === "compare" && other !== ""
            ? html`<${RunChoice} store=${store} label="beside" run=${other} link=${(one: string) => linkTo(view, run, one)} />`
            : null
        }</div>`
          : null
      }
      ${shownView(store, view, run, other)}
    </main>`;
}

interface ChoiceProps {
  readonly store: Store;
  readonly label: string;
  readonly run: string;
  readonly link: (run: string) => string;
}

/** Menu that chooses the run to show. */
function RunChoice({ store, label, run, link }: ChoiceProps) {
  const runs = store.runs.slice(-100).reverse();
  return html`<label>${label} <select value=${run} onChange=${(event: Event) => {
    location.hash = link((event.target as HTMLSelectElement).value);
  }}>${runs.map((one) => html`<option key=${one.run} value=${one.run}>${one.run} – ${one.name} (${one.status})</option>`)}
    ${runs.some((one) => one.run === run) ? null : html`<option value=${run}>${run}</option>`}</select></label>`;
}

function shownView(store: Store, view: string, run: string, other: string) {
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
  if (view === "compare") {
    const beside = other === "" || other === run ? undefined : store.story(other);
    return html`<${CompareView} key=${`${run} ${other}`} ...${{ store, story, other: beside }} />`;
  }
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
