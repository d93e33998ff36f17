// The lookups of a job by table, and the properties of lookups that decide how vectors are sent.

import type { BagSizes } from "../../data/ids-room.ts";
import type { IkjtGroups } from "../../data/sessions/ikjt.ts";
import type { TableSpec } from "../../embedding/tables/options.ts";
import type { ExchangeSpec } from "../../exchange/options.ts";
import { isReduced } from "../../exchange/scales.ts";
import type { Lookup } from "../../model/features.ts";
import type { HeldTable } from "./held-shard.ts";

/**
 * Returns the facts about each table that `heldShards` needs. `weighted` and `axes` are by feature.
 */
export function heldTablesOf(
  tables: readonly TableSpec[],
  lookups: readonly Lookup[],
  weighted: readonly boolean[] = [],
  axes: readonly number[] = [],
): HeldTable[] {
  const byTable: HeldTable["lookups"][number][][] = tables.map(() => []);
  for (const [lookup, { feature, table, pooling, position }] of lookups.entries()) {
    const isWeighted = weighted[feature] === true;
    const axis = axes[feature] ?? 0;
    byTable[table]?.push({ feature, table, pooling, position, lookup, isWeighted, axis });
  }
  return tables.map(({ rows, dynamic }, table): HeldTable => {
    return { rows, isDynamic: dynamic !== undefined, lookups: byTable[table] ?? [] };
  });
}

/**
 * Selects the tables whose distinct rows are sent instead of pooled vectors: tables with `dedup`,
 * and tables of unpooled features. Unpooled features of dynamic ids are excluded, since only the
 * device of an id knows its row. With a reduced wire precision only `dedup` decides, on a single
 * device too: whether rows or vectors are rounded must not depend on the devices.
 */
export function distinctIn(
  exchange: ExchangeSpec,
  lookups: readonly Lookup[],
  devices: number,
): (table: TableSpec, index: number) => boolean {
  const isExact = !isReduced(exchange);
  const unpooled = new Set(
    lookups.flatMap(({ table, position }) => (position === undefined ? [] : table)),
  );
  return ({ dedup, dynamic }, index) =>
    (devices > 1 && isExact && unpooled.has(index) && dynamic === undefined) ||
    (dedup && (devices > 1 || !isExact));
}

/** The axis of each feature: 0, the samples; or 1 + g, the distinct lists of its group g. */
export function axesOf(features: number, groups: IkjtGroups): number[] {
  const axes = new Array<number>(features).fill(0);
  for (const [group, own] of groups.entries()) for (const feature of own) axes[feature] = group + 1;
  return axes;
}

/**
 * The sizes of a lookup's bags. `idsMean`, `idsMax`: the mean and the longest bag of each feature;
 * without means, every bag counts as the longest.
 */
export function bagSizesIn(
  {
    idsMax,
    idsMean,
  }: { readonly idsMax: readonly number[]; readonly idsMean?: readonly number[] | undefined },
  lookup: Lookup,
): BagSizes {
  const most = idsMaxIn(idsMax, lookup);
  const mean = idsMean?.[lookup.feature] ?? Number.POSITIVE_INFINITY;
  // At most mean / (p + 1) of the samples have an id at position p (Markov).
  const own = lookup.position === undefined ? mean : mean / (lookup.position + 1);
  return { mean: Math.min(own, most), most };
}

/** The longest bag of a lookup. `idsMax` has the longest bag of each feature. */
export function idsMaxIn(idsMax: readonly number[], { feature, position }: Lookup): number {
  return position === undefined ? (idsMax[feature] ?? 0) : 1;
}
