// A table as input of learned costs: its size, and how often and how evenly it is looked up. Its
// columns may be halved while each half is a multiple of four (NeuroShard: Zha et al., MLSys 2023).

/**
 * Bins of how often a window of samples (reuse.ts) looks up a distinct row: once, twice, 3 to 4 …
 * above 32,768.
 */
export const reuseBins = 17;

/** The columns of a halved table are a multiple of this number, and at least this number. */
export const columnsUnit = 4;

/** A table, or the columns of one that are placed separately. */
export interface CostTable {
  readonly rows: number;
  /** Columns. */
  readonly dim: number;
  /** Mean ids of a sample. */
  readonly poolingFactor: number;
  /** Share of a window's distinct rows in each of the `reuseBins`. */
  readonly bins: readonly number[];
}

/** Bytes of its weights in float32. */
export function weightBytesOf({ rows, dim }: Pick<CostTable, "rows" | "dim">): number {
  return rows * dim * 4;
}

/** Whether its columns can be halved. */
export function isHalvable({ dim }: Pick<CostTable, "dim">): boolean {
  return dim % (2 * columnsUnit) === 0;
}
