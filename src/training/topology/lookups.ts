// The lookups of a job by table, and what of them decides how vectors travel.

import type { IkjtGroups } from "../../data/sessions/ikjt.ts";
import type { TableSpec } from "../../embedding/tables/options.ts";
import type { ExchangeSpec } from "../../exchange/options.ts";
import type { Lookup } from "../../model/features.ts";
import type { HeldTable } from "./held-shard.ts";

/** What holding shards needs to know of each table. `weighted`, `axes`: by feature. */
export function heldTablesOf(
  tables: readonly TableSpec[],
  lookups: readonly Lookup[],
  weighted: readonly boolean[] = [],
  axes: readonly number[] = [],
): HeldTable[] {
  const all = lookups.map((one, lookup) => {
    const { feature } = one;
    return { ...one, lookup, isWeighted: weighted[feature] === true, axis: axes[feature] ?? 0 };
  });
  return tables.map(({ rows, dynamic }, table): HeldTable => {
    const own = all.filter((one) => one.table === table);
    return { rows, isDynamic: dynamic !== undefined, lookups: own };
  });
}

/**
 * The tables whose distinct rows travel, instead of pooled vectors. Rows of unpooled features do,
 * except where the rows of ids are known on their own device only, or where rounded sums of
 * gradients would depend on the devices.
 */
export function distinctIn(
  exchange: ExchangeSpec,
  lookups: readonly Lookup[],
  devices: number,
): (table: TableSpec, index: number) => boolean {
  const isExact = exchange.forward === "float32" && exchange.backward === "float32";
  const unpooled = new Set(
    lookups.flatMap(({ table, position }) => (position === undefined ? [] : table)),
  );
  return ({ dedup, dynamic }, index) =>
    devices > 1 && (dedup || (unpooled.has(index) && dynamic === undefined && isExact));
}

/** The axis of each feature: 0, the samples; or 1 + g, the distinct lists of its group g. */
export function axesOf(features: number, groups: IkjtGroups): number[] {
  const axes = new Array<number>(features).fill(0);
  for (const [group, own] of groups.entries()) for (const feature of own) axes[feature] = group + 1;
  return axes;
}

/** The longest bag of a lookup. `idsMax`: of each feature. */
export function idsMaxIn(idsMax: readonly number[], { feature, position }: Lookup): number {
  return position === undefined ? (idsMax[feature] ?? 0) : 1;
}
