// The plan: the device of each shard, and the predicted and measured figures.

import { bytes, count, figure } from "../../../../cli/support/format.ts";
import type { ShardReport } from "../../../../internal.ts";
import { html, useMemo, useState } from "../dom.ts";
import { getAll } from "../feed.ts";
import type { RunStory } from "../model/run-story.ts";
import type { Store } from "../store.ts";
import { Windowed } from "../windowed.ts";
import { useAnswer } from "./use-answer.ts";

const none: readonly ShardReport[] = [];

interface Props {
  readonly store: Store;
  readonly story: RunStory;
}

export function PlanView({ store, story }: Props) {
  const path = `/api/shards?run=${encodeURIComponent(story.run)}`;
  const shards = useAnswer(path, store, getAll<ShardReport>) ?? none;
  return html`<section aria-labelledby="plan-title"><h2 id="plan-title">Plan</h2>
    <${Prediction} story=${story} />
    <${Devices} story=${story} shards=${shards} />
    <${Shards} shards=${shards} />
  </section>`;
}

/** The plan of the run's tables; undefined where it is not known. */
export function planOf({ started, finished }: RunStory) {
  return started?.plan ?? finished?.result.plan;
}

function Prediction({ story }: { readonly story: RunStory }) {
  const plan = planOf(story);
  if (plan === undefined) return html`<p class="empty">This run has placed no tables yet.</p>`;
  const measured = story.progress?.times?.stepMs ?? story.finished?.result.times?.stepMs;
  const schemes = Object.entries(plan.schemes ?? {}).map(
    ([scheme, tables]) => `${count(tables)} ${scheme}`,
  );
  const predicted = plan.stepSeconds === undefined ? undefined : 1000 * plan.stepSeconds;
  const ms = (value: number | undefined) => (value === undefined ? "–" : `${figure(value)} ms`);
  return html`<dl class="figures">
    <div><dt>Placed by</dt><dd>${plan.by}</dd></div>
    <div><dt>Step, predicted</dt><dd>${ms(predicted)}</dd></div>
    <div><dt>Step, measured</dt><dd>${ms(measured)}</dd></div>
    <div><dt>Busiest device over mean</dt><dd>${plan.imbalance === undefined ? "–" : plan.imbalance.toFixed(2)}</dd></div>
    <div><dt>Tables</dt><dd>${schemes.length === 0 ? "–" : schemes.join(", ")}</dd></div>
  </dl>${plan.note === undefined ? null : html`<p class="dim">${plan.note}</p>`}`;
}

interface ShardsProps {
  readonly story: RunStory;
  readonly shards: readonly ShardReport[];
}

interface DeviceSum {
  readonly device: number;
  shards: number;
  bytes: number;
  lookups: number;
}

function Devices({ story, shards }: ShardsProps) {
  const predicted = planOf(story)?.memoryBytes ?? [];
  const devices = Math.max(story.started?.devices ?? 0, predicted.length);
  const sums = useMemo(() => sumsOf(shards, devices), [shards, devices]);
  // Without devices, and in a report, shards are unknown, which differs from zero shards.
  const isKnown = shards.length > 0;
  if (devices === 0 || (!isKnown && predicted.length === 0)) return null;
  const most = Math.max(1, ...sums.map((one) => one.lookups));
  return html`<h3>Devices</h3><${Windowed} label="Devices" columns=${isKnown ? deviceColumns : deviceColumns.slice(0, 2)} rows=${sums}
    keyOf=${({ device }: DeviceSum) => device}
    cells=${(one: DeviceSum) => [
      html`<th scope="row">device:${one.device}</th>`,
      html`<td>${predicted[one.device] === undefined ? "–" : bytes(predicted[one.device] ?? 0)}</td>`,
      ...(isKnown
        ? [
            html`<td>${count(one.shards)}</td>`,
            html`<td>${bytes(one.bytes)}</td>`,
            html`<td><meter min="0" max=${most} value=${one.lookups} aria-label=${`Ids of device ${one.device}`}></meter> ${count(one.lookups)}</td>`,
          ]
        : []),
    ]} />`;
}

const deviceColumns = [
  ...[["Device", 12] as const, ["Memory, predicted", 18] as const, ["Shards", 8] as const],
  ...[["Rows held", 11] as const, ["Ids looked up a step", 28] as const],
];

function sumsOf(shards: readonly ShardReport[], devices: number): readonly DeviceSum[] {
  const sums = Array.from({ length: devices }, (_, device): DeviceSum => {
    return { device, shards: 0, bytes: 0, lookups: 0 };
  });
  for (const { device, bytes: shardBytes, lookupsPerStep } of shards) {
    const sum = sums[device];
    if (sum === undefined) continue;
    sum.shards++;
    sum.bytes += shardBytes;
    sum.lookups += lookupsPerStep;
  }
  return sums;
}

function Shards({ shards }: Pick<ShardsProps, "shards">) {
  const [filter, setFilter] = useState("");
  const wanted = useMemo(() => {
    const part = filter.toLowerCase();
    return shards
      .filter(({ table }) => table.toLowerCase().includes(part))
      .sort((a, b) => b.lookupsPerStep - a.lookupsPerStep);
  }, [shards, filter]);
  if (shards.length === 0) return null;
  return html`<div class="bar"><h3>Shards</h3><label>Filter <input type="search" value=${filter}
      onInput=${(event: Event) => setFilter((event.target as HTMLInputElement).value)} /></label>
      <span class="dim" role="status">${count(wanted.length)} of ${count(shards.length)}, the most looked up first</span></div>
    <${Windowed} label="Shards" columns=${shardColumns} rows=${wanted} keyOf=${({ actor }: ShardReport) => actor}
      cells=${shardCells} />`;
}

const shardColumns = [
  ...[["Shard", 11] as const, ["Table", 18] as const, ["Rows", 22] as const],
  ...[["Columns", 10] as const, ["Device", 20] as const, ["Tier", 9] as const],
  ...[["Size", 9] as const, ["Ids a step", 11] as const, ["State", 12] as const],
];

function shardCells(one: ShardReport) {
  return [
    html`<th scope="row">${one.actor}</th>`,
    html`<td class="name" title=${one.table}>${one.table}</td>`,
    html`<td>${count(one.firstRow)} to ${count(one.firstRow + one.rows - 1)}</td>`,
    html`<td>${one.firstColumn} to ${one.firstColumn + one.columns - 1}</td>`,
    html`<td>device:${one.device}${one.pin == null ? "" : " (pinned)"}</td>`,
    html`<td>${one.tier}</td>`,
    html`<td>${bytes(one.bytes)}</td>`,
    html`<td>${count(one.lookupsPerStep)}</td>`,
    html`<td><span class=${`state ${one.state}`}>${one.state}</span></td>`,
  ];
}
