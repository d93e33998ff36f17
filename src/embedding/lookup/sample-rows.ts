// Lookups of a device's samples: the table of each feature, and the bags as rows of the tables.

import type { AxisRows } from "../../data/sessions/ikjt.ts";
import type { TableSpec } from "../tables/options.ts";

/** The table that the ids of a feature are checked against. */
export interface BagTable
  extends Pick<TableSpec, "name" | "rows" | "ids" | "idBits">,
    Partial<Pick<TableSpec, "rowBlocks" | "dynamic">> {
  /** Whether the feature's ids have weights; left out, they do not. */
  readonly isWeighted?: boolean;
  /** For an unpooled feature: positions of its sequence, each a lookup of its own. */
  readonly positions?: number | undefined;
  /** Which ids of a bag longer than `positions` are used; left out, the first ones. */
  readonly kept?: "first" | "last" | undefined;
}

/**
 * Bags of rows, by lookup. A lookup is a pooled feature, or a position of an unpooled feature.
 * Lookups of deduplicated features have one bag per distinct list, in the first places of each
 * slice; their other bags are empty (ikjt.ts).
 */
export interface SampleRows {
  readonly samples: number;
  /** Axes of bags: the samples, then the distinct lists of each group; left out: only samples. */
  readonly axes?: readonly AxisRows[] | undefined;
  /** (lookups, b) */
  readonly lengths: Int32Array;
  /** (N), lookup-major; for dynamic ids, the lower halves. */
  readonly rows: Int32Array;
  /** (N): upper halves of dynamic ids; `blocks`: their row blocks. Absent without dynamic ids. */
  readonly highs?: Int32Array | undefined;
  readonly blocks?: Uint8Array | undefined;
  /** (lookups+1): where the rows of each lookup begin. */
  readonly starts: Int32Array;
  /** (N); absent where no feature has weights. */
  readonly weights: Float32Array | undefined;
}
