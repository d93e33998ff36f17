// The digest of a table: a hash over the born rows in logical order, whoever holds them and
// wherever they rest. The leaves are the quanta (row block x 32 columns) and, of a row-wise
// optimizer, the row block's state, so that any plan can hash its part and move no row (law 4).
//
//   leaf(block, quantum) = sha256( for each born row, ascending:
//                                  row u32 | weights of the quantum | its element state )
//   leaf(block, state)   = sha256( for each born row: row u32 | row state )
//   table                = sha256( all leaves: by block, then quantum, the state leaf last )

import assert from "node:assert/strict";
import { createHash, type Hash } from "node:crypto";
import { quantumColumns, type StateShape } from "../kernels/kernels.ts";
import type { Tile } from "../planner/shards.ts";
import type { TableSpec } from "./options.ts";
import type { RowRecords } from "./row-store.ts";
import { blockRowsOf, type Shard } from "./shards.ts";

/** The leaves of one shard: by block, then quantum, the state leaf last; hex. */
export interface ShardLeaves extends Tile {
  readonly leaves: readonly string[];
}

/** Leaves of a shard. `state`: what its rows have beside weights. */
export async function leavesOf(
  shard: Pick<Shard, "firstBlock" | "blocks" | "quanta" | "columns">,
  { rows, rowBlocks }: Pick<TableSpec, "rows" | "rowBlocks">,
  state: StateShape,
  records: AsyncIterable<RowRecords> | Iterable<RowRecords>,
): Promise<string[]> {
  const { firstBlock, blocks, quanta, columns } = shard;
  const blockRows = blockRowsOf({ rows, rowBlocks });
  const perBlock = quanta + state.perRow;
  const leaves: Hash[] = Array.from({ length: blocks * perBlock }, () => createHash("sha256"));
  for await (const chunk of records) {
    for (const { from, count, block } of blockRuns(chunk.rows, blockRows)) {
      for (let quantum = 0; quantum < perBlock; quantum++) {
        const bytes =
          quantum < quanta
            ? quantumBytes(chunk, from, count, columns, state, quantum)
            : stateBytes(chunk, from, count, columns, state);
        leaves[(block - firstBlock) * perBlock + quantum]?.update(bytes);
      }
    }
  }
  return leaves.map((leaf) => leaf.digest("hex"));
}

/** Hex sha256 of a table whose shards, which cover it, have these leaves. */
export function tableDigest(
  { dim, rowBlocks }: Pick<TableSpec, "dim" | "rowBlocks">,
  shards: readonly ShardLeaves[],
): string {
  const quanta = Math.ceil(dim / quantumColumns);
  const whole: (string | undefined)[][] = Array.from({ length: rowBlocks }, () => []);
  for (const { firstBlock, blocks, firstQuantum, quanta: own, leaves } of shards) {
    const perBlock = leaves.length / blocks;
    for (let i = 0; i < leaves.length; i++) {
      const leaf = i % perBlock;
      const row = whole[firstBlock + Math.floor(i / perBlock)];
      const place = leaf < own ? firstQuantum + leaf : quanta;
      // The row's state is on every device that has columns of the row: the same, or all is lost.
      assert(place < quanta || row?.[place] === undefined || row[place] === leaves[i]);
      if (row !== undefined) row[place] = leaves[i];
    }
  }
  const table = createHash("sha256");
  for (const leaf of whole.flat()) table.update(Buffer.from(leaf ?? "", "hex"));
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
  { perElement: copies, perRow }: StateShape,
  quantum: number,
): Uint8Array {
  const first = quantum * quantumColumns;
  const columns = Math.min(quantumColumns, dim - first);
  const width = copies * dim + perRow;
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

/** The row's own state. */
function stateBytes(
  chunk: RowRecords,
  from: number,
  count: number,
  dim: number,
  { perElement, perRow }: StateShape,
): Uint8Array {
  const width = perElement * dim + perRow;
  const floats = new Float32Array(count * (1 + perRow));
  const ints = new Uint32Array(floats.buffer);
  for (let i = 0; i < count; i++) {
    ints[i * (1 + perRow)] = chunk.rows[from + i] ?? 0;
    const own = chunk.state.subarray((from + i) * width + perElement * dim, (from + i + 1) * width);
    floats.set(own, i * (1 + perRow) + 1);
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
