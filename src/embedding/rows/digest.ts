// The digest of a table: a hash of its initialised rows that does not depend on which devices or
// tiers hold them. It is a sum of row hashes. So under any plan each device sums its own rows
// without moving any (law 4), and a changed row costs only its own hash.
//
//   row hash = sum over its quanta of 32 columns: hash(row, quantum, weights, element state)
//            + hash(row, row state)
//   table    = sum over initialised rows of row hash
//
// A sum has two 32-bit halves, added separately modulo 2^32. The digest detects accidental
// corruption of a model, not forgery; files have a SHA-256 for that.

import assert from "node:assert/strict";
import { createHash, hash } from "node:crypto";
import { quantumColumns, type StateShape } from "../../kernels/contract/kernels.ts";
import type { Tile } from "../../planner/shards.ts";
import { type Addon, loadAddon } from "../../ports/addon.ts";
import type { TableSpec } from "../tables/options.ts";
import type { Shard } from "../tables/shards.ts";
import type { RowRecords } from "./row-records.ts";

/**
 * The sums of one shard, hex. A shard of whole rows has one sum. A shard of some columns has two if
 * rows have state of their own: the second is for this state, which every shard with columns of
 * these rows has a copy of.
 */
export interface ShardLeaves extends Tile {
  readonly leaves: readonly string[];
}

/** Hashes rows of one shard. */
export interface RowHashing {
  /** Words of a row's hash: two for each leaf. */
  readonly words: number;
  /** The hash of record `i`, valid until the next call. */
  of(records: RowRecords, i: number): Uint32Array;
  /**
   * The hashes (n, words) of all records, or of those with a 1 in `wanted`; valid until the next
   * call.
   */
  all(records: RowRecords, wanted?: Uint8Array): Uint32Array;
}

/** The fields of a shard that its digest needs. */
export type HashedShard = Pick<Shard, "firstQuantum" | "quanta" | "columns">;

/** Creates the hashing of a shard's rows. `dim`: columns of the table. `state`: state of a row. */
export function rowHashing(
  shard: HashedShard,
  dim: number,
  state: StateShape,
  addon: Addon | undefined = loadAddon(),
): RowHashing {
  const { firstQuantum, quanta, columns } = shard;
  const { perElement: copies, perRow } = state;
  const isSplit = perRow > 0 && columns < dim;
  const sums = new Uint32Array(isSplit ? 4 : 2);
  const own = sums.subarray(0, 2);
  const ofState = isSplit ? sums.subarray(2) : own;
  const hash = new Uint32Array(2);
  const width = copies * columns + perRow;
  let last: RowRecords | undefined;
  let weights = new Uint32Array(0);
  let states = weights;
  let hashes = weights;
  const { length: words } = sums;
  const of: RowHashing["of"] = (records, i) => {
    if (records !== last) [weights, states] = [wordsOf(records.weights), wordsOf(records.state)];
    last = records;
    sums.fill(0);
    const row = records.rows[i] ?? 0;
    for (let quantum = 0; quantum < quanta; quantum++) {
      const first = quantum * quantumColumns;
      const count = Math.min(quantumColumns, columns - first);
      begin(hash, row, firstQuantum + quantum);
      mix(hash, weights, i * columns + first, count);
      for (let copy = 0; copy < copies; copy++) {
        mix(hash, states, i * width + copy * columns + first, count);
      }
      addTo(own, hash);
    }
    if (perRow > 0) {
      begin(hash, row, stateQuantum);
      mix(hash, states, i * width + copies * columns, perRow);
      addTo(ofState, hash);
    }
    return sums;
  };
  const shape = [firstQuantum, columns, copies, perRow, words];
  return {
    words,
    of,
    all(records, wanted) {
      const { rows } = records;
      if (hashes.length < words * rows.length) hashes = new Uint32Array(words * rows.length);
      if (addon?.hashRows === undefined) {
        for (let i = 0; i < rows.length; i++) {
          if (wanted === undefined || wanted[i] === 1) hashes.set(of(records, i), i * words);
        }
      } else {
        addon.hashRows(hashes, rows, records.weights, records.state, wanted, ...shape);
      }
      return hashes;
    },
  };
}

/** The quantum index under which a row's own state is hashed. */
const stateQuantum = -1;

function wordsOf(values: Float32Array): Uint32Array<ArrayBuffer> {
  return new Uint32Array(values.buffer as ArrayBuffer, values.byteOffset, values.length);
}

function begin(hash: Uint32Array, row: number, quantum: number): void {
  const salt = Math.imul(quantum + 2, 0x9e3779b1);
  hash[0] = finish(row ^ salt ^ 0x2545f491);
  hash[1] = finish(Math.imul(row, 0x85ebca77) ^ salt ^ 0x5bd1e995);
}

/** Mixes words into two MurmurHash3 hashes (Appleby, x86_32 body) with different constants. */
function mix(hash: Uint32Array, words: Uint32Array, first: number, count: number): void {
  let a = hash[0] ?? 0;
  let b = hash[1] ?? 0;
  for (let i = first; i < first + count; i++) {
    const word = words[i] ?? 0;
    let k = Math.imul(word, 0xcc9e2d51);
    k = Math.imul((k << 15) | (k >>> 17), 0x1b873593);
    a ^= k;
    a = (Math.imul((a << 13) | (a >>> 19), 5) + 0xe6546b64) | 0;
    k = Math.imul(word, 0x239b961b);
    k = Math.imul((k << 16) | (k >>> 16), 0xab0e9789);
    b ^= k;
    b = (Math.imul((b << 17) | (b >>> 15), 5) + 0x0bcaa747) | 0;
  }
  hash[0] = a;
  hash[1] = b;
}

/** Finishes the hash and adds it to the sum. */
function addTo(sum: Uint32Array, hash: Uint32Array): void {
  sum[0] = (sum[0] ?? 0) + finish(hash[0] ?? 0);
  sum[1] = (sum[1] ?? 0) + finish(hash[1] ?? 0);
}

/** The finalizer of MurmurHash3. */
function finish(word: number): number {
  let h = word ^ (word >>> 16);
  h = Math.imul(h, 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return h ^ (h >>> 16);
}

/** The leaves of a shard from its sums of row hashes. */
export function leavesOfSums(sums: Uint32Array): string[] {
  const bytes = Buffer.alloc(4 * sums.length);
  for (const [i, word] of sums.entries()) bytes.writeUInt32LE(word, 4 * i);
  const hex = bytes.toString("hex");
  return Array.from({ length: sums.length / 2 }, (_, i) => hex.slice(16 * i, 16 * (i + 1)));
}

/** The leaves of a shard, computed from all its initialised rows. */
export async function leavesOf(
  shard: HashedShard,
  { dim }: Pick<TableSpec, "dim">,
  state: StateShape,
  records: AsyncIterable<RowRecords> | Iterable<RowRecords>,
): Promise<string[]> {
  const hashing = rowHashing(shard, dim, state);
  const sums = new Uint32Array(hashing.words);
  for await (const chunk of records) {
    const hashes = hashing.all(chunk);
    for (let i = 0; i < chunk.rows.length; i++) addSum(sums, hashes, i);
  }
  return leavesOfSums(sums);
}

/** Adds row hash `at` of (n, words) to its shard's sums. */
export function addSum(sums: Uint32Array, hashes: Uint32Array, at = 0): void {
  const first = at * sums.length;
  for (let i = 0; i < sums.length; i++) sums[i] = (sums[i] ?? 0) + (hashes[first + i] ?? 0);
}

/** Subtracts row hash `at` of (n, words) from its shard's sums. */
export function subtractSum(sums: Uint32Array, hashes: Uint32Array, at: number): void {
  const first = at * sums.length;
  for (let i = 0; i < sums.length; i++) sums[i] = (sums[i] ?? 0) - (hashes[first + i] ?? 0);
}

/** Hex sha256 of a table, from the leaves of shards that cover it. */
export function tableDigest(shards: readonly ShardLeaves[]): string {
  const sum = new Uint32Array(2);
  const stateOf = new Map<string, string>();
  for (const { firstQuantum, leaves } of shards) {
    addSum(sum, wordsOfLeaf(leaves[0]));
    if (firstQuantum === 0 && leaves[1] !== undefined) addSum(sum, wordsOfLeaf(leaves[1]));
  }
  for (const { firstBlock, blocks, leaves } of shards) {
    if (leaves[1] === undefined) continue;
    const rows = `${firstBlock}.${blocks}`;
    const other = stateOf.get(rows) ?? leaves[1];
    // Every device with columns of a row has a copy of the row's state. The copies must be equal.
    assert.equal(leaves[1], other, `the row states of blocks ${rows} are alike`);
    stateOf.set(rows, other);
  }
  return hash("sha256", sum, "hex"); // Much faster than a Hash object a table.
}

function wordsOfLeaf(leaf = ""): Uint32Array {
  const bytes = Buffer.from(leaf, "hex");
  return Uint32Array.of(bytes.readUInt32LE(0), bytes.readUInt32LE(4));
}

/** Hex sha256 of a model: its dense part, then its tables in the order of the job. */
export function modelDigest(dense: string, tables: readonly string[]): string {
  const hash = createHash("sha256");
  hash.update(Buffer.from(dense, "hex"));
  for (const table of tables) hash.update(Buffer.from(table, "hex"));
  return hash.digest("hex");
}
