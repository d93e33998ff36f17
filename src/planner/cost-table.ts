// A table as a learned cost sees it: its size, how often and how evenly it is looked up. Its
// columns may be halved while what is left is a multiple of four (NeuroShard: Zha et al., MLSys
// 2023).

/** Bins of how often a batch looks a distinct row up: once, twice, 3 to 4 … above 32,768. */
export const reuseBins = 17;

/** Fewest columns that a table is halved to, and what the columns are a multiple of. */
export const columnsUnit = 4;

/** A table, or columns of one that lie apart. */
export interface CostTable {
  readonly rows: number;
  /** Columns. */
  readonly dim: number;
  /** Mean ids of a sample. */
  readonly poolingFactor: number;
  /** Of the distinct rows of a batch, the share in each of the `reuseBins`. */
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
