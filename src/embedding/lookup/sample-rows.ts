// What a device's samples look up: the tables of their features, and the bags as rows.

import type { AxisRows } from "../../data/sessions/ikjt.ts";
import type { TableSpec } from "../tables/options.ts";

/** The table that the ids of a feature are checked against. */
export interface BagTable
  extends Pick<TableSpec, "name" | "rows" | "ids" | "idBits">,
    Partial<Pick<TableSpec, "rowBlocks" | "dynamic">> {
  /** Whether the feature's ids have weights; left out, they do not. */
  readonly isWeighted?: boolean;
  /** Of an unpooled feature: the ids of a bag that count. Each position is a lookup of its own. */
  readonly positions?: number | undefined;
  /** Which ids of a longer bag count; left out, the first ones. */
  readonly kept?: "first" | "last" | undefined;
}

/**
 * Bags as rows, by lookup: a feature, or a position of an unpooled feature. Lookups of deduplicated
 * features have bags at the places of distinct lists alone (ikjt.ts).
 */
export interface SampleRows {
  readonly samples: number;
  /** The samples, then the distinct lists of each group; left out: the samples alone. */
  readonly axes?: readonly AxisRows[] | undefined;
  /** (lookups, b) */
  readonly lengths: Int32Array;
  /** (N), lookup-major; for dynamic ids, the lower halves. */
  readonly rows: Int32Array;
  /** (N): for dynamic ids, the upper halves and the row blocks; absent where there are none. */
  readonly highs?: Int32Array | undefined;
  readonly blocks?: Uint8Array | undefined;
  /** (lookups+1): where the rows of each lookup begin. */
  readonly starts: Int32Array;
  /** (N); absent where no feature has weights. */
  readonly weights: Float32Array | undefined;
}
