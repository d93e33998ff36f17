// All rows of a table of a checkpoint, in order, as float32. Trained rows come from the checkpoint;
// all others get their initial values, which are a function of the job's seed. So a lookup of any
// row gives the values that the model itself uses.
//
// n = rows of a chunk, D = columns.

import {
  averagesOf,
  keyOf,
  type OpenCheckpoint,
  openKernels,
  type Progress,
  type RowRecords,
  rowAverageIn,
  rowBirthOf,
  rowDecayOf,
  rowsOfTable,
  type StoredTable,
} from "../../../internal.ts";

/** Consecutive rows of a table, without a gap. */
export interface WholeRows {
  /** Index of the first row in the table. */
  readonly first: number;
  /** (n, D) */
  readonly weights: Float32Array;
}

/** Approximate bytes of a chunk: large enough for the disk, small compared with the tables. */
const chunkBytes = 2 ** 20;

/**
 * The rows of a table in chunks; each is valid until the next one. Rows that decay together
 * (row-decay.ts) are converted to their weights, and rows with a moving average to the average,
 * rounded to float32. The hashes are checked at the end, so output made from earlier chunks must
 * not count before. `begin`: the first row to yield; the checkpoint's rows before it are read
 * nevertheless, as hashes cover whole files. @throws CheckpointCorruptError
 */
export async function* wholeRows(
  checkpoint: OpenCheckpoint,
  table: StoredTable,
  progress: Progress,
  begin = 0,
): AsyncGenerator<WholeRows, void, undefined> {
  const { spec } = table;
  const { dim, rows } = spec;
  const { job, manifest } = checkpoint;
  const share = rowDecayOf(job.optimizer.sparse, spec)?.shareAt(manifest.cut) ?? 1;
  const initial = initialRows(table, job.seed);
  const average = rowAverageIn(checkpoint);
  const trained = rowsOfTable(checkpoint, table, progress);
  let chunk: Pick<RowRecords, "rows" | "weights"> | undefined;
  let at = 0;
  const next = async () => {
    const found = await trained.next();
    chunk =
      found.done === true
        ? undefined
        : { rows: found.value.rows, weights: averagesOf(found.value, average) };
    at = 0;
  };
  try {
    await next();
    const count = initial.rowsMax;
    for (; chunk !== undefined; await next()) {
      while ((chunk.rows[at] ?? begin) < begin) at++;
      if (at < chunk.rows.length) break;
    }
    for (let first = begin; first < rows; first += count) {
      const end = Math.min(rows, first + count);
      const weights = initial.at(first, end - first);
      while (chunk !== undefined && (chunk.rows[at] ?? end) < end) {
        for (; at < chunk.rows.length; at++) {
          const row = chunk.rows[at] ?? 0;
          if (row >= end) break;
          weights.set(chunk.weights.subarray(at * dim, (at + 1) * dim), (row - first) * dim);
        }
        if (at === chunk.rows.length) await next();
      }
      for (let i = 0; share !== 1 && i < weights.length; i++) {
        weights[i] = (weights[i] ?? 0) * share;
      }
      await progress.breathe();
      yield { first, weights };
    }
    // The stream checks its hashes after its last row.
    while (chunk !== undefined) await next();
  } finally {
    await trained.return();
  }
}

/** Computes initial values of rows, rounded to the table's precision. */
function initialRows({ spec, table }: StoredTable, seed: number) {
  const { dim, precision, pooling } = spec;
  const kernels = openKernels("auto");
  const rowsMax = Math.max(1, Math.min(spec.rows, Math.floor(chunkBytes / (4 * dim))));
  const { purpose, scale } = rowBirthOf(spec, table);
  const key = keyOf(seed);
  const made = kernels.rows({
    ...{ rows: rowsMax, dim, pooling, precision },
    ...{ rowBlocks: 1, stateWidth: 0 },
  });
  const places = Int32Array.from({ length: rowsMax }, (_, i) => i);
  return {
    rowsMax,
    /** (count, D), in memory that the caller owns. */
    at(first: number, count: number): Float32Array {
      const own = places.subarray(0, count);
      kernels.bornAt(
        made,
        own,
        own.map((place) => first + place),
        key,
        purpose,
        scale,
        0,
      );
      return kernels.readRows(made, 0, count);
    },
  };
}
