// The plan: which shard lies on which device, what was predicted of it, and what is measured.

import type { ShardReport } from "../../actors/host/shard.ts";
import { bytes, count } from "../../cli/support/format.ts";
import { html, useState } from "../dom.ts";
import type { RunStory } from "../model/run-story.ts";
import type { Store } from "../store.ts";
import { useAsked } from "./tiers-view.ts";

/** Rows that are drawn; the filter finds the others. */
const rowsMax = 200;

interface Props {
  readonly store: Store;
  readonly story: RunStory;
}

export function PlanView({ store, story }: Props) {
  const shards = (useAsked<readonly ShardReport[]>("/api/shards", store) ?? []).filter(
    ({ run }) => run === story.run,
  );
  return html`<section aria-labelledby="plan-title"><h2 id="plan-title">Plan</h2>
    <${Prediction} story=${story} />
    <${Devices} story=${story} shards=${shards} />
    <${Shards} shards=${shards} />
  </section>`;
}

function Prediction({ story }: { readonly story: RunStory }) {
  const plan = story.started?.plan ?? story.finished?.result.plan;
  if (plan === undefined) return html`<p class="empty">This run has placed no tables yet.</p>`;
  const measured = story.progress?.times?.stepMs ?? story.finished?.result.times?.stepMs;
  const schemes = Object.entries(plan.schemes ?? {}).map(
    ([scheme, tables]) => `${count(tables)} ${scheme}`,
  );
  const predicted = plan.stepSeconds === undefined ? undefined : 1000 * plan.stepSeconds;
  const ms = (value: number | undefined) =>
    value === undefined ? "–" : `${value.toPrecision(3)} ms`;
  return html`<dl class="figures">
    <div><dt>Placed by</dt><dd>${plan.by}</dd></div>
    <div><dt>Step, predicted</dt><dd>${ms(predicted)}</dd></div>
    <div><dt>Step, measured</dt><dd>${ms(measured)}</dd></div>
    <div><dt>Busiest device over mean</dt><dd>${plan.imbalance === undefined ? "–" : plan.imbalance.toFixed(2)}</dd></div>
    <div><dt>Tables</dt><dd>${schemes.length === 0 ? "–" : schemes.join(", ")}</dd></div>
  </dl>${plan.note === undefined ? null : html`<p class="dim">${plan.note}</p>`}`;
}

function Devices({
  story,
  shards,
}: {
  readonly story: RunStory;
  readonly shards: readonly ShardReport[];
}) {
  const predicted = (story.started?.plan ?? story.finished?.result.plan)?.memoryBytes ?? [];
  const devices = Math.max(story.started?.devices ?? 0, predicted.length);
  const sums = Array.from({ length: devices }, () => ({ shards: 0, bytes: 0, lookups: 0 }));
  for (const { device, bytes: own, lookupsPerStep } of shards) {
    const sum = sums[device];
    if (sum === undefined) continue;
    sum.shards++;
    sum.bytes += own;
    sum.lookups += lookupsPerStep;
  }
  if (devices === 0) return null;
  const most = Math.max(1, ...sums.map((one) => one.lookups));
  return html`<div class="scroll"><table><caption>Devices</caption><thead><tr><th scope="col">Device</th><th scope="col">Shards</th><th scope="col">Rows held</th>
    <th scope="col">Memory, predicted</th><th scope="col">Ids looked up a step</th></tr></thead>
    <tbody>${sums.map(
      (
        one,
        device,
      ) => html`<tr key=${device}><th scope="row">device:${device}</th><td>${count(one.shards)}</td><td>${bytes(one.bytes)}</td>
      <td>${predicted[device] === undefined ? "–" : bytes(predicted[device])}</td>
      <td><meter min="0" max=${most} value=${one.lookups} aria-label=${`Ids of device ${device}`}></meter> ${count(one.lookups)}</td></tr>`,
    )}</tbody></table></div>`;
}

function Shards({ shards }: { readonly shards: readonly ShardReport[] }) {
  const [filter, setFilter] = useState("");
  if (shards.length === 0) return null;
  const wanted = shards
    .filter(({ table }) => table.toLowerCase().includes(filter.toLowerCase()))
    .sort((a, b) => b.lookupsPerStep - a.lookupsPerStep);
  return html`<div class="bar"><h3>Shards</h3><label>Filter <input type="search" value=${filter}
      onInput=${(event: Event) => setFilter((event.target as HTMLInputElement).value)} /></label>
      <span class="dim">${count(Math.min(rowsMax, wanted.length))} of ${count(wanted.length)}, the most looked up first</span></div>
    <div class="scroll"><table><thead><tr><th scope="col">Shard</th><th scope="col">Table</th><th scope="col">Rows</th><th scope="col">Columns</th>
      <th scope="col">Device</th><th scope="col">Tier</th><th scope="col">Size</th><th scope="col">Ids a step</th><th scope="col">State</th></tr></thead>
    <tbody>${wanted.slice(0, rowsMax).map(
      (
        one,
      ) => html`<tr key=${one.actor}><th scope="row">${one.actor}</th><td class="name">${one.table}</td>
      <td>${count(one.firstRow)} to ${count(one.firstRow + one.rows - 1)}</td><td>${one.firstColumn} to ${one.firstColumn + one.columns - 1}</td>
      <td>device:${one.device}${one.pin == null ? "" : " (pinned)"}</td><td>${one.tier}</td><td>${bytes(one.bytes)}</td><td>${count(one.lookupsPerStep)}</td>
      <td><span class=${`state ${one.state}`}>${one.state}</span></td></tr>`,
    )}</tbody></table></div>`;
}
