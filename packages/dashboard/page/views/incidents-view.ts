// Incidents of a run: each with a timeline in milliseconds, and the actions taken.

import { count } from "../../../../cli/support/format.ts";
import { html, Moment } from "../dom.ts";
import { phasesOf, type ShownIncident } from "../model/incident-phases.ts";
import { replayKind, replaySentence } from "../model/replay.ts";
import type { RunStory } from "../model/run-story.ts";

/** Most incidents that are drawn; the newest are. */
const shownMax = 30;

export function IncidentsView({ story }: { readonly story: RunStory }) {
  const incidents = story.incidents.slice(-shownMax).reverse();
  return html`<section aria-labelledby="incidents-title">
    <h2 id="incidents-title">Incidents</h2>
    ${story.replays.map((replay) => html`<p><span class=${`mark ${replayKind(replay)}`}>${replaySentence(replay)}</span></p>`)}
    ${
      incidents.length === 0
        ? html`<p class="empty">Nothing has failed.</p>`
        : incidents.map((one) => html`<${Incident} key=${one.record.incident} incident=${one} />`)
    }
  </section>`;
}

const ms = (value: number) => `${Math.round(value).toLocaleString("en-US")} ms`;

function Incident({ incident }: { readonly incident: ShownIncident }) {
  const { record } = incident;
  const phases = phasesOf(incident);
  const first = Math.min(0, ...phases.map(({ fromMs }) => fromMs));
  const whole = Math.max(1, ...phases.map(({ toMs }) => toMs)) - first;
  const how = record.end === undefined ? "lasts" : record.end.how;
  return html`<article class="panel incident" aria-label=${`Incident ${record.incident}`}>
    <h3>${record.incident}. ${record.offender} failed <span class=${`state ${how}`}>${how}</span></h3>
    <p><${Moment} atMs=${Date.parse(record.at)} /><span class="dim">${record.step === undefined ? "" : `, after step ${count(record.step)}`}</span>
      <br />${record.error.code}: ${record.error.message}</p>
    <ol class="timeline">${phases.map(
      ({ name, fromMs, toMs }) => html`<li key=${name} class=${name}>
        <span class="phase">${name}</span>
        <span class="track"><span class="bar-part" style=${{
          marginInlineStart: `${(100 * (fromMs - first)) / whole}%`,
          width: `${Math.max(0.5, (100 * (toMs - fromMs)) / whole)}%`,
        }}></span></span>
        <span class="ms">${ms(toMs - fromMs)}</span></li>`,
    )}
    ${phases.at(-1)?.name === "replay" ? html`<li class="done"><span class="phase">caught up</span><span class="track"></span><span class="ms">${ms(phases.at(-1)?.toMs ?? 0)}</span></li>` : null}
    </ol>
    ${
      record.actions.length === 0 && record.followed.length === 0
        ? null
        : html`<details><summary>What was done</summary><ul>
      ${record.followed.map(({ actor, message, afterMs }) => html`<li>+${ms(afterMs)} ${actor} failed by it: ${message}</li>`)}
      ${record.actions.map(({ by, did, afterMs }) => html`<li>+${ms(afterMs)} ${by} ${did}</li>`)}</ul></details>`
    }
  </article>`;
}
