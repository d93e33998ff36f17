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
 * not count before. `births`: of the export, one table after the other. `begin`: the first row to
 * yield; the checkpoint's rows before it are read nevertheless, as hashes cover whole files.
 * @throws CheckpointCorruptError
 */
export async function* wholeRows(
  checkpoint: OpenCheckpoint,
  table: StoredTable,
  births: Births,
  progress: Progress,
  begin = 0,
): AsyncGenerator<WholeRows, void, undefined> {
  const { spec } = table;
  const { dim, rows } = spec;
  const share = shareOf(checkpoint, table);
  const initial = births.of(table, checkpoint.job.seed);
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

/** The factor from the stored rows of a table to its weights; 1 unless its rows decay together. */
export function shareOf({ job, manifest }: OpenCheckpoint, { spec }: StoredTable): number {
  return rowDecayOf(job.optimizer.sparse, spec)?.shareAt(manifest.cut) ?? 1;
}

/** The values times a factor; the same array if that is 1. */
export function scaled(values: Float32Array, by: number): Float32Array {
  return by === 1 ? values : values.map((value) => value * by);
}

/** Computes the initial values of rows, of one table after the other. */
export interface Births {
  /** The initial rows of a table, rounded to its precision; at most `rowsMax` at once. */
  of(
    table: StoredTable,
    seed: number,
  ): {
    readonly rowsMax: number;
    /** (count, D), in memory that the caller owns. */
    at(first: number, count: number): Float32Array;
  };
}

/** Creates the initial rows of an export. Tables of one shape share the memory of a chunk. */
export function createBirths(): Births {
  const kernels = openKernels("auto");
  const chunks = new Map<string, Chunk>();
  const chunkFor = ({ spec: { dim, precision, pooling, rows: all } }: StoredTable): Chunk => {
    const shape = `${dim} ${precision} ${pooling}`;
    const rows = Math.max(1, Math.min(all, Math.floor(chunkBytes / (4 * dim))));
    const found = chunks.get(shape);
    if (found !== undefined && found.places.length >= rows) return found;
    const made = { rows, dim, pooling, precision, rowBlocks: 1, stateWidth: 0 };
    const places = Int32Array.from({ length: rows }, (_, i) => i);
    const chunk = { made: kernels.rows(made), places };
    chunks.set(shape, chunk);
    return chunk;
  };
  return {
    of(stored, seed) {
      const { made, places } = chunkFor(stored);
      const { purpose, scale } = rowBirthOf(stored.spec, stored.table);
      const key = keyOf(seed);
      return {
        rowsMax: places.length,
        at(first, count) {
          const untrained = places.subarray(0, count);
          const rows = untrained.map((place) => first + place);
          kernels.bornAt(made, untrained, rows, key, purpose, scale, 0);
          return kernels.readRows(made, 0, count);
        },
      };
    },
  };
}

/** Memory for the rows of a chunk, and their places in it. */
interface Chunk {
  readonly made: ReturnType<ReturnType<typeof openKernels>["rows"]>;
  readonly places: Int32Array;
}
