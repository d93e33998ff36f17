// The job of a run: model, data and learning rates in a few lines, and every option below.

import { count } from "../../../../cli/support/format.ts";
import { html } from "../dom.ts";
import { dataLines, jobLines } from "../model/job-lines.ts";
import type { RunStory } from "../model/run-story.ts";
import type { Store } from "../store.ts";

interface Props {
  readonly store: Store;
  readonly story: RunStory;
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
