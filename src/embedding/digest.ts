// The digest of a table: a hash over the born rows in logical order, whoever holds them and
// wherever they rest. The leaves are the quanta (row block x 32 columns) and, of a row-wise
// optimizer, the row block's state, so that any plan can hash its part and move no row (law 4).
//
//   leaf(block, quantum) = sha256( for each born row, ascending:
//                                  row u32 | weights of the quantum | its element state )
//   leaf(block, state)   = sha256( for each born row: row u32 | row state )
//   table                = sha256( all leaves: by block, then quantum, the state leaf last )

import { createHash, type Hash } from "node:crypto";
import { quantumColumns } from "../kernels/kernels.ts";
import type { TableSpec } from "./options.ts";
import type { RowRecords } from "./row-store.ts";

/** Hex sha256 of a table. `width` = state floats of a row. */
export function tableDigest(
  spec: Pick<TableSpec, "rows" | "dim" | "rowBlocks">,
  width: number,
  records: Iterable<RowRecords>,
): string {
  const { dim, rowBlocks } = spec;
  const blockRows = Math.ceil(spec.rows / rowBlocks);
  const quanta = Math.ceil(dim / quantumColumns);
  // What is left of a row's state beside whole rows of elements belongs to the row.
  const rowState = width % dim;
  const leavesPerBlock = quanta + (rowState > 0 ? 1 : 0);
  const leaves: Hash[] = Array.from({ length: rowBlocks * leavesPerBlock }, () =>
    createHash("sha256"),
  );
  for (const chunk of records) {
    for (const { from, count, block } of blockRuns(chunk.rows, blockRows)) {
      for (let quantum = 0; quantum < leavesPerBlock; quantum++) {
        const bytes =
          quantum < quanta
            ? quantumBytes(chunk, from, count, dim, width, quantum)
            : stateBytes(chunk, from, count, width);
        leaves[block * leavesPerBlock + quantum]?.update(bytes);
      }
    }
  }
  const table = createHash("sha256");
  for (const leaf of leaves) table.update(leaf.digest());
  return table.digest("hex");
}

/** Stretches of a chunk that lie in one row block. */
function* blockRuns(
  rows: Int32Array,
  blockRows: number,
): Generator<{ from: number; count: number; block: number }> {
  let from = 0;
  while (from < rows.length) {
    const block = Math.floor((rows[from] ?? 0) / blockRows);
    let end = from + 1;
    while (end < rows.length && (rows[end] ?? 0) < (block + 1) * blockRows) end++;
    yield { from, count: end - from, block };
    from = end;
  }
}

function quantumBytes(
  chunk: RowRecords,
  from: number,
  count: number,
  dim: number,
  width: number,
  quantum: number,
): Uint8Array {
  const first = quantum * quantumColumns;
  const columns = Math.min(quantumColumns, dim - first);
  const copies = Math.floor(width / dim); // Element states: 0, 1 (Adagrad) or 2 (Adam).
  const floats = new Float32Array(count * (1 + columns * (1 + copies)));
  const ints = new Uint32Array(floats.buffer);
  let at = 0;
  for (let i = from; i < from + count; i++) {
    ints[at++] = chunk.rows[i] ?? 0;
    floats.set(chunk.weights.subarray(i * dim + first, i * dim + first + columns), at);
    at += columns;
    for (let copy = 0; copy < copies; copy++) {
      const start = i * width + copy * dim + first;
      floats.set(chunk.state.subarray(start, start + columns), at);
      at += columns;
    }
  }
  return new Uint8Array(floats.buffer);
}

/** The row's own state: its last float. */
function stateBytes(chunk: RowRecords, from: number, count: number, width: number): Uint8Array {
  const floats = new Float32Array(count * 2);
  const ints = new Uint32Array(floats.buffer);
  for (let i = 0; i < count; i++) {
    ints[2 * i] = chunk.rows[from + i] ?? 0;
    floats[2 * i + 1] = chunk.state[(from + i + 1) * width - 1] ?? 0;
  }
  return new Uint8Array(floats.buffer);
}

/** Hex sha256 of a model: its dense part, then its tables in the order of the job. */
export function modelDigest(dense: string, tables: readonly string[]): string {
  const hash = createHash("sha256");
  hash.update(Buffer.from(dense, "hex"));
  for (const table of tables) hash.update(Buffer.from(table, "hex"));
  return hash.digest("hex");
}
