// Prepares rows of a checkpoint for a model file: regroups them into chunks that do not depend on
// how the checkpoint was sharded, and drops the state that predictions do not need.

import type { RowRecords, StateShape } from "../../../internal.ts";

/** Rows of a chunk. */
const chunkRows = 4096;

/**
 * The rows after row `after`, in chunks of 4096; the last chunk may be smaller. Chunks own their
 * memory.
 */
export async function* regrouped(
  source: AsyncIterable<RowRecords>,
  after: number,
): AsyncGenerator<RowRecords, void, undefined> {
  let held: RowRecords | undefined;
  let count = 0;
  for await (const { rows, weights, state } of source) {
    if (rows.length === 0) continue;
    const [dim, width] = [weights.length / rows.length, state.length / rows.length];
    let from = firstBehind(rows, after);
    while (from < rows.length) {
      held ??= {
        rows: new Int32Array(chunkRows),
        weights: new Float32Array(chunkRows * dim),
        state: new Float32Array(chunkRows * width),
      };
      const end = Math.min(rows.length, from + chunkRows - count);
      held.rows.set(rows.subarray(from, end), count);
      held.weights.set(weights.subarray(from * dim, end * dim), count * dim);
      held.state.set(state.subarray(from * width, end * width), count * width);
      count += end - from;
      from = end;
      if (count < chunkRows) continue;
      yield held;
      [held, count] = [undefined, 0];
    }
  }
  if (held === undefined) return;
  const part = (values: Float32Array) => values.subarray(0, (values.length / chunkRows) * count);
  yield {
    rows: held.rows.subarray(0, count),
    weights: part(held.weights),
    state: part(held.state),
  };
}

/** Index of the first row greater than `after`, in ascending rows. */
function firstBehind(rows: Int32Array, after: number): number {
  if ((rows.at(-1) ?? 0) <= after) return rows.length;
  return rows.findIndex((row) => row > after);
}

/** The rows without their state per element; the state per row is kept. */
export function narrowed(
  { rows, weights, state }: RowRecords,
  dim: number,
  { perElement, perRow }: StateShape,
): RowRecords {
  const width = perElement * dim + perRow;
  const own = new Float32Array(rows.length * perRow);
  for (let i = 0; i < rows.length; i++) {
    own.set(state.subarray((i + 1) * width - perRow, (i + 1) * width), i * perRow);
  }
  return { rows, weights, state: own };
}
