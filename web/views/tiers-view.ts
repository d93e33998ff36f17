// Tiers: of cached tables, where their rows were found, how the miss ratio falls with the cache,
// and what one more GiB would buy.

import type { TierReport } from "../../actors/host/tier-report.ts";
import { bytes, count, percent } from "../../cli/support/format.ts";
import { Chart, joined } from "../charts.ts";
import { html, useEffect, useState } from "../dom.ts";
import { get } from "../feed.ts";
import type { RunStory } from "../model/run-story.ts";
import type { Store } from "../store.ts";

const askEveryMs = 3000;
/** Rows that are drawn; the filter finds the others. */
const rowsMax = 200;
/** Curves of one chart. */
const curvesMax = 6;

interface Props {
  readonly store: Store;
  readonly story: RunStory;
}

/** What is asked for again and again while a view is open. */
export function useAsked<Answer>(path: string, store: Store): Answer | undefined {
  const [answer, setAnswer] = useState<Answer | undefined>(undefined);
  useEffect(() => {
    if (store.isFile) return;
    let isOpen = true;
    const ask = () => {
      if (document.hidden) return;
      get<Answer>(path).then(
        (given) => isOpen && setAnswer(given),
        () => {}, // While the leader is away, what was told last stays.
      );
    };
    ask();
    const timer = setInterval(ask, askEveryMs);
    return () => {
      isOpen = false;
      clearInterval(timer);
    };
  }, [path]);
  return answer;
}

export function TiersView({ store, story }: Props) {
  const [filter, setFilter] = useState("");
  const tiers = useAsked<readonly TierReport[]>("/api/tiers", store) ?? [];
  const rows = tiers
    .filter(({ run }) => run === story.run)
    .flatMap((tier) => tier.tables.map((table) => ({ tier, table })));
  const wanted = rows.filter(({ table }) =>
    table.table.toLowerCase().includes(filter.toLowerCase()),
  );
  const rates = story.progress?.times?.tiers ?? story.finished?.result.times?.tiers;
  return html`<section aria-labelledby="tiers-title">
    <div class="bar"><h2 id="tiers-title">Tiers</h2>
      <label>Filter <input type="search" value=${filter} onInput=${(event: Event) => setFilter((event.target as HTMLInputElement).value)} /></label>
      <span class="dim">${count(wanted.length)} tables below devices</span></div>
    ${
      rates === undefined && rows.length === 0
        ? html`<p class="empty">No table of this run has rows below memory.</p>`
        : null
    }
    ${rates === undefined ? null : html`<p>Of a step's rows: <b>${percent(rates.hbm)}</b> from device memory, <b>${percent(rates.ddr)}</b> from host memory, <b>${percent(Math.max(0, rates.ssd))}</b> from disk.</p>`}
    ${
      rows.length === 0
        ? null
        : html`<div class="scroll"><table><thead><tr>
      <th scope="col">Tier</th><th scope="col">State</th><th scope="col">Table</th><th scope="col">HBM rows</th><th scope="col">HBM hits</th>
      <th scope="col">DDR rows</th><th scope="col">DDR hits</th><th scope="col">To write</th><th scope="col">SSD rows</th><th scope="col">SSD</th></tr></thead>
      <tbody>${wanted.slice(0, rowsMax).map(
        ({ tier, table: { table, hbm, ddr, ssd } }) => html`<tr key=${`${tier.actor} ${table}`}>
        <th scope="row">${tier.actor}</th><td><span class=${`state ${tier.state}`}>${tier.state}</span></td><td class="name">${table}</td>
        <td>${count(hbm.rows)} / ${count(hbm.slots)}</td><td><${Heat} share=${hbm.hitRate} what=${`HBM hits of ${table}`} /></td>
        <td>${ddr === null ? "–" : `${count(ddr.rows)} / ${count(ddr.slots)}`}</td>
        <td>${ddr === null ? "–" : html`<${Heat} share=${ddr.hitRate} what=${`DDR hits of ${table}`} />`}</td>
        <td>${ddr === null ? "–" : count(ddr.dirty)}</td><td>${count(ssd.rows)}</td><td>${bytes(ssd.bytes)}</td></tr>`,
      )}</tbody></table></div>`
    }
    <${MissCurves} story=${story} />
    <${Advice} story=${story} />
  </section>`;
}

/** A hit rate, as a bar whose colour says whether it is a good one. */
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

function Advice({ story }: { readonly story: RunStory }) {
  const tables = (story.tiers ?? []).slice(0, rowsMax);
  if (tables.length === 0) return null;
  return html`<section class="panel"><h3>What one more GiB on each device buys</h3>
    <div class="scroll"><table><thead><tr><th scope="col">Table</th><th scope="col">From HBM now</th><th scope="col">with more HBM</th>
      <th scope="col">From disk now</th><th scope="col">with more DDR</th></tr></thead>
    <tbody>${tables.map(
      ({
        table,
        now,
        moreHbm,
        moreDdr,
      }) => html`<tr key=${table}><th scope="row" class="name">${table}</th><td>${percent(now.hbm)}</td>
      <td>${percent(moreHbm.hbm)}</td><td>${percent(now.ssd)}</td><td>${percent(moreDdr.ssd)}</td></tr>`,
    )}</tbody></table></div></section>`;
}
