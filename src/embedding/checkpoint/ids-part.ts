// The part of a checkpoint with the dynamic ids of one shard, block by block. Little-endian, in
// words of 32 bits:
//
//   "OSRI" | version | blocks
//   then for each block:  block | n | m | rows i32 * n | ids * n | ids * m
//
// n ids that have a row, ordered by row, and m candidates without a row, ordered by id. An id is
// the words of its entry (id-table.ts). A leaf of the digest is the hash of a block's words, so any
// plan can hash its own part. A part is written and read in pieces: with 215 million ids it has
// more bytes than a Buffer of Node.js 20, and a hash takes less than 2^31 bytes at once.

import { createHash } from "node:crypto";
import { CheckpointCorruptError } from "../../errors/errors.ts";
import type { IdBlock } from "../dynamic-ids/id-block.ts";
import { entryWords } from "../dynamic-ids/id-table.ts";
import type { ShardIds } from "../dynamic-ids/shard-ids.ts";
import { piecesOf } from "./pieces.ts";

const magic = 0x4952_534f;
const version = 1;
const headerWords = 3;
/** Words of a piece. */
const pieceWords = 2 ** 24;

/** Encodes the ids of a shard as a part, chunk by chunk. */
export function* encodeIds({ shard, blocks }: ShardIds): Generator<Uint8Array> {
  yield bytesOf(Int32Array.of(magic, version, blocks.length));
  for (const [i, block] of blocks.entries()) {
    yield* inPieces(wordsOf(block, shard.firstBlock + i));
  }
}

/**
 * Encodes a part with all blocks of a table, for ids that all have a row and occurred once, at
 * `step`. `rows`: ascending, relative to their block.
 */
export function encodeNewIds(
  blocks: readonly Pick<BlockIds, "rows" | "ids">[],
  step: number,
): Uint8Array {
  const words = blocks.flatMap(({ rows, ids }, block) => {
    const entries = Array.from(ids, (id) => {
      return [Number(BigInt.asIntN(32, id)), Number(id >> 32n), 1, step + 1];
    });
    return [Int32Array.of(block, rows.length, 0), rows, Int32Array.from(entries.flat())];
  });
  const head = Int32Array.of(magic, version, blocks.length);
  return Buffer.concat([head, ...words].map(bytesOf));
}

/** The digest leaf of each block of the shard, hex. */
export function idLeavesOf({ shard, blocks }: ShardIds): string[] {
  return blocks.map((block, i) => leafOf(wordsOf(block, shard.firstBlock + i)));
}

function leafOf(words: readonly Int32Array[]): string {
  const leaf = createHash("sha256");
  for (const piece of inPieces(words)) leaf.update(piece);
  return leaf.digest("hex");
}

/**
 * Hex sha256 of a table with dynamic ids: the digest of its rows, then the leaves of all blocks.
 */
export function dynamicDigest(rows: string, leaves: readonly string[]): string {
  const table = createHash("sha256");
  for (const one of [rows, ...leaves]) table.update(Buffer.from(one, "hex"));
  return table.digest("hex");
}

/**
 * The digest leaf of each block of an encoded part, hex. `path` is for the error only.
 * @throws CheckpointCorruptError where the bytes are not a part with ids
 */
export function idLeavesOfPart(part: EncodedIds, path: string): string[] {
  return Array.from(blocksOf(part, path), ({ words }) => leafOf(words));
}

/** The bytes of a part, whole or in pieces; a piece may overwrite the memory of the one before. */
type EncodedIds = Uint8Array | Iterable<Uint8Array>;

/** The ids with a row in one block. */
export interface BlockIds {
  readonly block: number;
  /** (n), relative to the block's first row, ascending. */
  readonly rows: Int32Array;
  /** (n) */
  readonly ids: BigInt64Array;
}

/**
 * Decodes the ids that have a row, block by block. `path` is for the error only.
 * @throws CheckpointCorruptError where the bytes are not a part with ids
 */
export function* idsOfBlocks(part: EncodedIds, path: string): Generator<BlockIds> {
  for (const { block, rows, known } of blocksOf(part, path)) {
    const half = (i: number, word: number) => known[i * entryWords + word] ?? 0;
    const ids = BigInt64Array.from(rows, (_, i) => {
      return (BigInt(half(i, 1)) << 32n) | BigInt(half(i, 0) >>> 0);
    });
    yield { block, rows, ids };
  }
}

/**
 * Restores the ids of a part into the blocks of `shards`, which must be empty. Blocks of other
 * shards are skipped. `path` is for the error only.
 * @throws CheckpointCorruptError where the bytes are not a part with ids
 */
export function restoreIds(shards: readonly ShardIds[], part: EncodedIds, path: string): void {
  for (const { block, rows, known, waiting } of blocksOf(part, path)) {
    const at = shards.find(({ shard: { firstBlock, blocks } }) => {
      return block >= firstBlock && block < firstBlock + blocks;
    });
    const own = at?.blocks[block - at.shard.firstBlock];
    if (own === undefined) continue;
    let after = -1;
    for (const [i, row] of rows.entries()) {
      if (row <= after || row >= own.rowsMax) {
        const has = `after row ${after} of a block that has ${own.rowsMax}`;
        throw new CheckpointCorruptError(path, `row ${row} of block ${block}, ${has}`);
      }
      after = row;
      own.rows.put(row, known.subarray(i * entryWords, (i + 1) * entryWords));
    }
    for (let i = 0; i < waiting.length / entryWords; i++) {
      own.candidates.put(i, waiting.subarray(i * entryWords, (i + 1) * entryWords));
    }
  }
}

/**
 * Joins the blocks of several parts into one part, in block order. `path` is for the error only.
 * @throws CheckpointCorruptError where the bytes are not parts with ids
 */
export function joinIds(parts: readonly Uint8Array[], path: string): Uint8Array {
  const blocks = parts.flatMap((bytes) => [...blocksOf(bytes, path)]);
  const ordered = blocks.toSorted((a, b) => a.block - b.block);
  const words = ordered.flatMap((one) => one.words.map(bytesOf));
  return Buffer.concat([bytesOf(Int32Array.of(magic, version, blocks.length)), ...words]);
}

/** One block of a part. */
interface BlockWords {
  readonly block: number;
  /** All words of the block, in order: its head, then the fields below. */
  readonly words: readonly Int32Array[];
  /** (n) */
  readonly rows: Int32Array;
  /** (n * entryWords): entries with a row; `waiting` (m * entryWords): candidates without one. */
  readonly known: Int32Array;
  readonly waiting: Int32Array;
}

function* blocksOf(part: EncodedIds, path: string): Generator<BlockWords> {
  const pieces = piecesOf(part instanceof Uint8Array ? [part] : part);
  const take = (count: number) => {
    const bytes = count < 0 ? undefined : pieces.take(4 * count);
    if (bytes === undefined) throw new CheckpointCorruptError(path, "it ends too early");
    return new Int32Array(bytes.buffer, bytes.byteOffset, count).slice();
  };
  try {
    const [first, second, count = 0] = take(headerWords);
    if (first !== magic || second !== version) {
      throw new CheckpointCorruptError(path, "it does not begin as a part of dynamic ids does");
    }
    for (let i = 0; i < count; i++) {
      const head = take(3);
      const [block = 0, n = 0, m = 0] = head;
      const [rows, known, waiting] = [take(n), take(n * entryWords), take(m * entryWords)];
      yield { block, words: [head, rows, known, waiting], rows, known, waiting };
    }
    if (!pieces.isAtEnd()) throw new CheckpointCorruptError(path, "it has bytes after its end");
  } finally {
    pieces.close();
  }
}

function wordsOf({ rows, candidates }: IdBlock, block: number): Int32Array[] {
  const [known, waiting] = [rows.entries(), candidates.byId()];
  const head = Int32Array.of(block, known.length, waiting.length);
  return [head, known, rows.wordsOf(known), candidates.wordsOf(waiting)];
}

function* inPieces(all: readonly Int32Array[]): Generator<Uint8Array> {
  for (const words of all) {
    for (let at = 0; at < words.length; at += pieceWords) {
      yield bytesOf(words.subarray(at, at + pieceWords));
    }
  }
}

function bytesOf({ buffer, byteOffset, byteLength }: Int32Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}
