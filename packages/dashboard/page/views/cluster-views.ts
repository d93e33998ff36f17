// Hosts: the processes of the cluster. Chaos: makes an actor throw, to show that the model stays
// the same.

import { bytes, count, percent, plural } from "../../../../cli/support/format.ts";
import { html, useState } from "../dom.ts";
import { post } from "../feed.ts";
import { replaySummary } from "../model/replay.ts";
import type { RunStory } from "../model/run-story.ts";
import type { Store } from "../store.ts";

export function HostsView({ store }: { readonly store: Store }) {
  const { processes = [], unresponsive = [] } = store.report ?? {};
  return html`<section aria-labelledby="hosts-title"><h2 id="hosts-title">Hosts</h2>
    <div class="scroll"><table class="cards">
      <thead><tr><th scope="col">Process</th><th scope="col">Machine</th><th scope="col">Pid</th><th scope="col">Devices</th>
        <th scope="col">Memory</th><th scope="col">Main thread busy</th><th scope="col">Frames refused</th></tr></thead>
      <tbody>${processes.map(
        (one) => html`<tr key=${one.host ?? "leader"}>
        <th scope="row">${one.host === null ? "leader" : `host:${one.host}`}</th><td data-label="Machine">${one.machine}</td>
        <td data-label="Pid">${one.pid === 0 ? "–" : one.pid}</td><td data-label="Devices">${count(devicesIn(one.actors))}</td>
        <td data-label="Memory">${bytes(one.residentBytes)}</td>
        <td data-label="Main thread busy"><meter min="0" max="1" high="0.7" optimum="0" value=${one.mainThreadBusy} aria-label="Main thread busy"></meter>
          ${percent(one.mainThreadBusy)}</td><td data-label="Frames refused">${count(one.refusedFrames)}</td></tr>`,
      )}
      ${unresponsive.map((host) => html`<tr><th scope="row">host:${host}</th><td colspan="6"><span class="state failed">no answer</span></td></tr>`)}
      </tbody></table></div></section>`;
}

type Actors = NonNullable<Store["report"]>["processes"][number]["actors"];

function devicesIn(actor: Actors): number {
  const itself = actor.actor.startsWith("device:") ? 1 : 0;
  return actor.children.reduce((sum, child) => sum + devicesIn(child), itself);
}

/** Actors of a run that may be made to throw. */
function actorsOf(actor: Actors, run: string): string[] {
  const below = actor.children.flatMap((child) => actorsOf(child, run));
  return actor.run === run ? [actor.actor, ...below] : below;
}

interface ChaosProps {
  readonly store: Store;
  readonly story: RunStory;
}

export function ChaosView({ store, story }: ChaosProps) {
  const [actor, setActor] = useState("");
  const mayFault = store.hello?.allow.includes("faults") === true;
  const actors = (store.report?.processes ?? []).flatMap((one) => actorsOf(one.actors, story.run));
  const chosen = actors.includes(actor)
    ? actor
    : (actors.find((one) => one.startsWith("device:")) ?? actors[0] ?? "");
  const { checkpoints, finished } = story;
  const replayed = replaySummary(story.replays);
  const choose = (event: Event) => setActor((event.target as HTMLSelectElement).value);
  const digests = new Map(checkpoints.map(({ step, digest }) => [step, digest]));
  return html`<section aria-labelledby="chaos-title"><h2 id="chaos-title">Chaos</h2>
    ${
      mayFault && actors.length === 0
        ? html`<p class="empty">No actor can be made to fail: the run has no devices now.</p>`
        : mayFault
          ? html`<form class="bar" onSubmit=${(event: Event) => {
              event.preventDefault();
              store.attempt(post("/api/faults", { run: story.run, actor: chosen }));
            }}>
      <label>Actor <select value=${chosen} onChange=${choose}>
        ${actors.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></label>
      <button type="submit" disabled=${chosen === ""}>Make it throw</button></form>`
          : html`<p class="empty">This page may not make actors fail, as the cluster was started without
      <code>--dashboard-allow faults</code> (in a program: <code>dashboard.allow: ["faults"]</code> and <code>faultsAllowed: true</code>).</p>`
    }
    <p>State <span class=${`state ${story.state}`}>${story.state}</span>, generation ${story.generation}, ${plural(story.incidents.length, "incident")}.
      ${replayed === undefined ? "No step was computed again yet." : html`<span class=${`mark ${replayed.kind}`}>${replayed.text}</span>`}</p>
    <div class="scroll"><table class="cards"><thead><tr><th scope="col">Step</th><th scope="col">Digest of the model</th></tr></thead>
      <tbody>${[...digests]
        .reverse()
        .slice(0, 20)
        .map(
          ([step, digest]) =>
            html`<tr key=${step}><th scope="row" data-label="Step">${count(step)}</th><td class="name" data-label="Digest"><code>${digest}</code></td></tr>`,
        )}</tbody></table></div>
    ${finished === undefined ? null : html`<p>The run's digest: <code>${finished.result.digest}</code></p>`}
  </section>`;
}
