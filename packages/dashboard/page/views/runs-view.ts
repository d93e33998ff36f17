// Runs: all that the cluster remembers, newest first, with actions.

import { count, duration, metric } from "../../../../cli/support/format.ts";
import type { PageMethod, RunLine } from "../../server/page-api.ts";
import { html, useState } from "../dom.ts";
import { post } from "../feed.ts";
import { jobOfText } from "../model/job-lines.ts";
import type { Store } from "../store.ts";

/** Most rows that are drawn; the filter finds the others. */
const rowsMax = 100;

interface Props {
  readonly store: Store;
  readonly open: (run: string) => void;
}

export function RunsView({ store, open }: Props) {
  const [filter, setFilter] = useState("");
  const mayControl = store.hello?.allow.includes("control") === true;
  const wanted = [...store.runs].reverse().filter(({ run, name, tenant = "" }) => {
    return `${run} ${name} ${tenant}`.toLowerCase().includes(filter.toLowerCase());
  });
  const shown = wanted.slice(0, rowsMax);
  const hasTenants = store.runs.some(({ tenant }) => tenant !== undefined);
  return html`<section aria-labelledby="runs-title">
    <div class="bar">
      <h2 id="runs-title">Runs</h2>
      <label>Filter <input type="search" value=${filter}
        onInput=${(event: Event) => setFilter((event.target as HTMLInputElement).value)} /></label>
      <span class="dim">${count(wanted.length)} of ${count(store.runs.length)}</span>
    </div>
    ${store.runs.length === 0 ? html`<p class="empty">No runs yet. Submit one: <code>osiris submit JOB</code></p>` : null}
    ${
      shown.length === 0
        ? null
        : html`<div class="scroll"><table class="cards">
      <thead><tr>
        <th scope="col">Run</th><th scope="col">Job</th>${hasTenants ? html`<th scope="col">Tenant</th>` : null}
        <th scope="col">State</th><th scope="col">Progress</th><th scope="col">Left</th>
        <th scope="col">Samples/s</th><th scope="col">AUC</th>${mayControl ? html`<th scope="col">Actions</th>` : null}
      </tr></thead>
      <tbody>${shown.map((line) => html`<${RunRow} key=${line.run} ...${{ line, store, open, hasTenants, mayControl }} />`)}</tbody>
    </table></div>`
    }
    ${mayControl ? html`<${SubmitForm} store=${store} />` : null}
  </section>`;
}

interface RowProps extends Props {
  readonly line: RunLine;
  readonly hasTenants: boolean;
  readonly mayControl: boolean;
}

/** A run's row: figures come from the stream, else from the overview, else from the list. */
function RunRow({ line, store, open, hasTenants, mayControl }: RowProps) {
  const { run, name, tenant, status } = line;
  const live = store.figures.get(run);
  const report = store.report?.runs.find((one) => one.run === run);
  const isOver = status === "finished" || status === "failed" || status === "cancelled";
  const summary = isOver ? store.summary(run) : undefined;
  const step = live?.step ?? report?.step ?? line.step ?? 0;
  const steps = live?.steps ?? report?.steps ?? line.steps ?? 0;
  const left = live?.secondsLeft ?? report?.secondsLeft;
  const auc = live?.auc ?? summary?.result?.auc;
  const isRunning = status === "running";
  const state = isRunning ? (live?.state ?? status) : status;
  const share = steps === 0 ? 0 : Math.min(1, step / steps);
  const speed = isRunning ? (live?.samplesPerSecond ?? report?.samplesPerSecond ?? 0) : 0;
  return html`<tr>
    <th scope="row"><a href=${`#/run/${encodeURIComponent(run)}`} onClick=${() => open(run)}>${run}</a></th>
    <td class="name" data-label="Job">${name}</td>
    ${hasTenants ? html`<td data-label="Tenant">${tenant ?? ""}</td>` : null}
    <td data-label="State"><span class=${`state ${state}`}>${state}</span>
      ${report?.standstill === undefined ? null : html` <span class="dim">${report.standstill}</span>`}</td>
    <td data-label="Progress"><progress max="1" value=${share} aria-label=${`Progress of ${run}`}></progress>
      <span class="dim"> ${count(step)} / ${count(steps)}</span></td>
    <td data-label="Left">${isRunning && left !== undefined ? duration(left) : "–"}</td>
    <td data-label="Samples/s">${speed > 0 ? count(speed) : "–"}</td>
    <td data-label="AUC">${metric(auc)}</td>
    ${mayControl ? html`<td data-label="Actions"><${RunActions} run=${run} status=${status} store=${store} /></td>` : null}
  </tr>`;
}

interface ActionsProps {
  readonly run: string;
  readonly status: RunLine["status"];
  readonly store: Store;
}

/** The buttons that fit a run's state. */
export function RunActions({ run, status, store }: ActionsProps) {
  const ask = (method: PageMethod, more: object = {}) => {
    store.attempt(post(`/api/jobs/${method}`, { run, ...more }));
  };
  const button = (text: string, act: () => void) =>
    html`<button type="button" class="small" aria-label=${`${text} ${run}`} onClick=${act}>${text}</button>`;
  if (status === "paused")
    return html`${button("Resume", () => ask("resume"))} ${button("Cancel", () => ask("cancel"))}`;
  if (status !== "running" && status !== "queued") return null;
  const scale = () => {
    const answer = prompt(`Devices for ${run}`);
    if (answer !== null && answer.trim() !== "") ask("scale", { devices: Number(answer) });
  };
  return html`${button("Pause", () => ask("pause"))} ${button("Scale", scale)} ${button("Cancel", () => ask("cancel"))}`;
}

function SubmitForm({ store }: { readonly store: Store }) {
  const [text, setText] = useState("");
  const submit = (event: Event) => {
    event.preventDefault();
    store.attempt(
      (async () => {
        await post("/api/jobs/submit", { job: jobOfText(text) });
        setText("");
      })(),
    );
  };
  return html`<details class="panel"><summary>Submit a job</summary>
    <form onSubmit=${submit}>
      <label>Job, in YAML or JSON: the text of a job file, as <code>osiris submit</code> takes it
        <textarea rows="8" value=${text} required
          onInput=${(event: Event) => setText((event.target as HTMLTextAreaElement).value)}></textarea></label>
      <button type="submit">Submit</button>
    </form></details>`;
}
