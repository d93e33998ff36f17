// Tiers of cached tables: where rows were found, how the miss ratio falls with the cache's size,
// and what one more GiB would gain.

import { bytes, count, percent, plural } from "../../../../cli/support/format.ts";
import type { TierReport } from "../../../../internal.ts";
import { Chart, joined } from "../charts.ts";
import { html, useMemo, useState } from "../dom.ts";
import type { RunStory } from "../model/run-story.ts";
import type { Store } from "../store.ts";
import { Windowed } from "../windowed.ts";
import { useAnswer } from "./use-answer.ts";

/** Most curves of one chart. */
const curvesMax = 6;

interface Props {
  readonly store: Store;
  readonly story: RunStory;
}

export function TiersView({ store, story }: Props) {
  const [filter, setFilter] = useState("");
  const tiers = useAnswer<readonly TierReport[]>("/api/tiers", store) ?? none;
  const rows = useMemo(() => rowsOf(tiers, story.run), [tiers, story.run]);
  const wanted = useMemo(() => {
    const part = filter.toLowerCase();
    return rows.filter(({ table }) => table.table.toLowerCase().includes(part));
  }, [rows, filter]);
  const rates = ratesOf(story);
  return html`<section aria-labelledby="tiers-title">
    <div class="bar"><h2 id="tiers-title">Tiers</h2>
      ${rows.length === 0 ? null : html`<label>Filter <input type="search" value=${filter} onInput=${(event: Event) => setFilter((event.target as HTMLInputElement).value)} /></label>`}
      ${rows.length === 0 ? null : html`<span class="dim">${plural(wanted.length, "cached table")}</span>`}</div>
    ${
      !hasTiers(story) && rows.length === 0
        ? html`<p class="empty">No table of this run has rows below device memory.</p>`
        : null
    }
    ${rates === undefined ? null : html`<p>Of a step's rows: <b>${percent(rates.hbm)}</b> from device memory, <b>${percent(rates.ddr)}</b> from host memory, <b>${percent(rates.ssd)}</b> from disk.</p>`}
    ${
      rows.length === 0
        ? null
        : html`<${Windowed} label="Cached tables" columns=${columns} rows=${wanted} keyOf=${keyOf} cells=${cellsOf} />`
    }
    <${MissCurves} story=${story} />
    <${Advice} story=${story} />
  </section>`;
}

const ratesOf = ({ progress, finished }: RunStory) =>
  progress?.times?.tiers ?? finished?.result.times?.tiers;

/** Whether a run has reported tables with rows below its devices' memory. */
export function hasTiers(story: RunStory): boolean {
  return ratesOf(story) !== undefined || (story.tiers ?? []).length > 0;
}

/** A table in one device's tier. */
interface TierRow {
  readonly tier: TierReport;
  readonly table: TierReport["tables"][number];
}

const none: readonly TierReport[] = [];
const columns = [
  ...[["Tier", 9] as const, ["State", 10] as const, ["Table", 18] as const],
  ...[["HBM rows", 20] as const, ["HBM hits", 22] as const, ["DDR rows", 20] as const],
  ...[["DDR hits", 22] as const, ["To write", 10] as const, ["SSD rows", 12] as const],
  ["SSD", 10] as const,
];

function rowsOf(tiers: readonly TierReport[], run: string): readonly TierRow[] {
  const tiersOfRun = tiers.filter((tier) => tier.run === run);
  return tiersOfRun.flatMap((tier) => tier.tables.map((table) => ({ tier, table })));
}

const keyOf = ({ tier, table }: TierRow) => `${tier.actor} ${table.table}`;

function cellsOf({ tier, table: { table, hbm, ddr, ssd } }: TierRow) {
  return [
    html`<th scope="row">${tier.actor}</th>`,
    html`<td><span class=${`state ${tier.state}`}>${tier.state}</span></td>`,
    html`<td class="name" title=${table}>${table}</td>`,
    html`<td>${count(hbm.rows)} / ${count(hbm.slots)}</td>`,
    html`<td><${Heat} share=${hbm.hitRate} what=${`HBM hits of ${table}`} /></td>`,
    html`<td>${ddr === null ? "–" : `${count(ddr.rows)} / ${count(ddr.slots)}`}</td>`,
    html`<td>${ddr === null ? "–" : html`<${Heat} share=${ddr.hitRate} what=${`DDR hits of ${table}`} />`}</td>`,
    html`<td>${ddr === null ? "–" : count(ddr.dirty)}</td>`,
    html`<td>${count(ssd.rows)}</td>`,
    html`<td>${bytes(ssd.bytes)}</td>`,
  ];
}

/** A hit rate as a bar, whose colour shows whether it is good. */
function Heat({ share, what }: { readonly share: number; readonly what: string }) {
  return html`<meter min="0" max="1" low="0.6" high="0.9" optimum="1" value=${share} aria-label=${what}></meter> ${percent(share)}`;
}

function MissCurves({ story }: { readonly story: RunStory }) {
  const tables = [...(story.tiers ?? [])]
    .sort((a, b) => b.accesses - a.accesses)
    .slice(0, curvesMax);
  if (tables.length === 0) return null;
  const curves = tables.map(({ table, curve }) => ({
    label: table,
    points: curve
      .filter(({ rows }) => rows > 0)
      .map(({ rows, missRatio }) => [rows, 100 * missRatio]),
  }));
  const { xs, values } = joined(curves);
  const shown = curves.map(({ label }, at) => ({ label, values: values[at] ?? [] }));
  return html`<${Chart} id="misses" title="Miss ratio, by rows of the cache" xLabel="rows" unit=" %" isLogX xs=${xs} curves=${shown} />`;
}

const adviceColumns = [
  ...[["Table", 22] as const, ["From HBM now", 14] as const, ["with more HBM", 15] as const],
  ...[["From disk now", 15] as const, ["with more DDR", 15] as const],
];

type TierAdvice = NonNullable<RunStory["tiers"]>[number];

function Advice({ story }: { readonly story: RunStory }) {
  const { tiers = [] } = story;
  if (tiers.length === 0) return null;
  return html`<section class="panel"><h3>What one more GiB on each device buys</h3>
    <${Windowed} label="Gains of more memory" columns=${adviceColumns} rows=${tiers} keyOf=${({ table }: TierAdvice) => table}
      cells=${({ table, now, moreHbm, moreDdr }: TierAdvice) => [
        html`<th scope="row" class="name" title=${table}>${table}</th>`,
        html`<td>${percent(now.hbm)}</td>`,
        html`<td>${percent(moreHbm.hbm)}</td>`,
        html`<td>${percent(now.ssd)}</td>`,
        html`<td>${percent(moreDdr.ssd)}</td>`,
      ]} /></section>`;
}
