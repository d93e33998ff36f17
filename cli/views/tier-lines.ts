// The tiers of cached tables, as lines for people: a table of each device's tables, tier by tier.

import type { CacheReport, ClusterReport, TierReport } from "../../internal.ts";
import { aligned, bytes, count, percent } from "../support/format.ts";

/** The tiers of all runs. */
export function allTierLines({ processes, unresponsive }: ClusterReport): string[] {
  const missing = unresponsive.map((host) => `host:${host}: no answer`);
  return [...tierLines(processes.flatMap((one) => one.tiers)), ...missing];
}

/** A line for each table of each tier. */
export function tierLines(tiers: readonly TierReport[]): string[] {
  const cells = tiers.flatMap(({ actor, run, state, store = "", requests, requestsMax, ...tier }) =>
    tier.tables.map(({ table, hbm, ddr, ssd }) => [
      ...[actor, run, state, store, table, ...cacheCells(hbm)],
      ...(ddr === null ? ["", "", "", ""] : [...cacheCells(ddr), count(ddr.dirty)]),
      ...[count(ssd.rows), bytes(ssd.bytes), `${tier.prefetch}`, `${requests} of ${requestsMax}`],
    ]),
  );
  return cells.length === 0 ? [] : aligned([titles, ...cells]);
}

const titles = [
  ...["tier", "run", "state", "store", "table"],
  ...["HBM rows", "hits", "evicted"],
  ...["DDR rows", "hits", "evicted", "to write"],
  ...["SSD rows", "size", "ahead", "requests"],
];

function cacheCells({ rows, slots, hitRate, evicted }: CacheReport): string[] {
  return [`${count(rows)} of ${count(slots)}`, percent(hitRate), count(evicted)];
}
