// The row keeper of a device: shared memory for the rows of its shards, which outlives the thread,
// and the undo log by which the next generation puts the rows back to the cut that it goes on from,
// instead of reading them (docs/decisions/0041-rows-that-live-are-kept.md).
//
// Invariants
//   K1. The memory of a tile has one thread at a time: a thread is given tiles of threads whose exit
//       was seen (law 3).
//   K2. Until `tiles` is called, the log by which the tile came stays valid: putting rows back may be
//       repeated, and no row changes otherwise.
//   K3. A tile with a row whose hash is not the one that the last cut noted is not used.

import {
  lineBytes,
  type Rows,
  type RowsMemory,
  rowsExtent,
  type SizedRows,
  wholeLines,
} from "../../kernels/contract/kernels.ts";
import { loadAddon } from "../../ports/addon.ts";
import type { Shard } from "../tables/shards.ts";
import type { SavedRows } from "./changed-rows.ts";
import {
  allocateUndo,
  type CutId,
  putBack,
  type RowValues,
  sumsOf,
  UndoLog,
  type UndoMemory,
  undoBytesMax,
  undoTo,
} from "./undo-log.ts";

/** The memory of a tile that a device holds or held. Plain data and shared memory. */
export interface KeptTile {
  /** Identifies the memory. */
  readonly id: string;
  /** What the memory holds: see `tileKey`. */
  readonly key: string;
  readonly memory: RowsMemory;
  /** The tile's number in the log. */
  readonly tile: number;
  readonly undo: UndoMemory;
}

/** Tiles of one job with equal keys have memory of the same layout, for the same rows. */
export function tileKey({
  table,
  firstBlock,
  blocks,
  firstQuantum,
  quanta,
}: Pick<Shard, "table" | "firstBlock" | "blocks" | "firstQuantum" | "quanta">): string {
  return `${table}.${firstBlock}.${blocks}.${firstQuantum}.${quanta}`;
}

/** The memory of a tile: its rows, and what cuts note of them (changed-rows.ts). */
export interface TileRoom {
  readonly memory: RowsMemory;
  readonly sums: Uint32Array;
  readonly hashes: Uint32Array;
}

/** Follows the changes of one tile. */
export interface TileUndo {
  /**
   * What the memory holds: the rows as of the cut; rows of no use, to be initialised; or nothing,
   * all 0.
   */
  readonly found: "kept" | "stale" | "new";
  /** Called before the rows ids[from] .. ids[to-1] change. */
  changing(ids: Int32Array, from?: number, to?: number): void;
}

/** Tiles of at least this size have memory of their own; others share it. */
const arenaBytesMax = 16 * 1024 * 1024;
const arenaBytesMin = 64 * 1024;

interface Tracked {
  readonly tile: number;
  readonly saved: SavedRows;
  readonly values: readonly RowValues[];
  /** A bit for each row: whether the current log has it. */
  readonly seen: Int32Array;
  isSeen: boolean;
}

export class RowKeeper {
  /** Shards whose rows are in place, and need not be restored. */
  readonly inPlace = new Set<number>();
  /** Those of them with marks that don't tell what changed since the baseline. */
  readonly unmarked = new Set<number>();
  readonly #given = new Map<string, KeptTile[]>();
  readonly #at: CutId;
  readonly #undoBytes: number;
  readonly #name: string;
  readonly #tracked: Tracked[] = [];
  readonly #tiles: Omit<KeptTile, "undo">[] = [];
  readonly #roomOf = new WeakMap<TileRoom, KeptTile | Omit<KeptTile, "undo" | "tile">>();
  #arena: { readonly buffer: SharedArrayBuffer; used: number } | undefined;
  #undo: UndoLog | undefined;
  #undoNeeded = 0;
  #fresh = new Int32Array(0);
  #keptBytes = 0;

  /** `given`: tiles of this device that former threads held. `name`: unique in the run. */
  constructor(options: {
    readonly given: readonly KeptTile[];
    readonly at: CutId;
    readonly undoBytes: number;
    readonly name: string;
  }) {
    this.#at = options.at;
    this.#undoBytes = options.undoBytes;
    this.#name = options.name;
    for (const tile of options.given) {
      this.#given.set(tile.key, [...(this.#given.get(tile.key) ?? []), tile]);
    }
  }

  /** Bytes of the rows that are in place. */
  get keptBytes(): number {
    return this.#keptBytes;
  }

  /** The memory of a shard: of a former thread, or new. `words`: of a row's hash. */
  roomFor(shard: Shard, sized: SizedRows, words: number, hasHashes: boolean): TileRoom {
    const key = tileKey(shard);
    const { bytes } = rowsExtent(sized);
    const hashBytes = hasHashes ? wholeLines(4 * words * sized.rows) : 0;
    const given = this.#given.get(key)?.shift();
    const memory = given?.memory ?? this.#allocate(bytes + hashBytes + lineBytes);
    const { buffer, at } = memory;
    const hashes = new Uint32Array(buffer, at + bytes, hasHashes ? words * sized.rows : 0);
    const sums = new Uint32Array(buffer, at + bytes + hashBytes, words);
    const room = { memory, sums, hashes };
    this.#roomOf.set(room, given ?? { id: `${this.#name}/${this.#tiles.length}`, key, memory });
    return room;
  }

  /**
   * Begins to follow the tile in `room`, after its rows were put back if it has any.
   * `isIntact`: whether these rows, and some others, have the hashes that the last cut noted.
   */
  track(
    shard: Shard,
    room: TileRoom,
    rows: Rows,
    saved: SavedRows,
    isIntact: (putBack: Int32Array) => boolean,
  ): TileUndo {
    const held = this.#roomOf.get(room);
    if (held === undefined) throw new RangeError(`The keeper has no memory of ${shard.name}`);
    const values = valuesIn(room, rows, saved.hashing.words);
    const isOld = "undo" in held;
    const isKept = isOld && this.#putBack(shard, held, saved, values, isIntact);
    const found = isKept ? "kept" : isOld ? "stale" : "new";
    const tile = this.#tracked.length;
    const { id, key, memory } = held;
    const seen = new Int32Array(Math.ceil(shard.rows / 32));
    const own: Tracked = { tile, saved, values, seen, isSeen: false };
    this.#tracked.push(own);
    this.#tiles.push({ id, key, memory, tile });
    this.#undoNeeded += undoBytesMax(shard.rows, rowBytesOf(values));
    return {
      found,
      changing: (ids, from = 0, to = ids.length) => this.#changing(own, ids, from, to),
    };
  }

  /** Begins to keep changes, once all shards are as of the cut that the generation goes on from. */
  begin(): void {
    const bytes = Math.min(this.#undoBytes / 2, this.#undoNeeded);
    this.#undo = new UndoLog(allocateUndo(this.#tracked.length, bytes));
    this.#next(this.#undo, this.#at);
    this.#undo.forgetFormer();
  }

  /** The device begins to take a cut; `isWhole`: whether any part of it is whole. */
  beginCut(isWhole: boolean): void {
    if (isWhole) this.#undo?.beginWhole();
  }

  /** The device has taken a cut. */
  endCut(cut: CutId): void {
    if (this.#undo !== undefined) this.#next(this.#undo, cut);
  }

  /** The memory of all tiles, for the next generation. K2 */
  tiles(): KeptTile[] {
    const undo = this.#undo?.memory;
    return undo === undefined ? [] : this.#tiles.map((tile) => ({ ...tile, undo }));
  }

  #next(undo: UndoLog, cut: CutId): void {
    const log = undo.next();
    for (const one of this.#tracked) {
      const { sums } = one.saved;
      sumsOf(undo.memory, log, one.tile, sums.length).set(sums);
      if (one.isSeen) one.seen.fill(0);
      one.isSeen = false;
    }
    undo.begin(cut);
  }

  #changing(own: Tracked, ids: Int32Array, from: number, to: number): void {
    const undo = this.#undo;
    if (undo === undefined || undo.isFull) return;
    if (this.#fresh.length < to - from) this.#fresh = new Int32Array(2 * (to - from));
    const { seen } = own;
    const fresh = this.#fresh;
    let count = 0;
    for (let i = from; i < to; i++) {
      const row = ids[i] ?? 0;
      const word = seen[row >>> 5] ?? 0;
      const bit = 1 << (row & 31);
      if ((word & bit) !== 0) continue;
      seen[row >>> 5] = word | bit;
      fresh[count++] = row;
    }
    if (count === 0) return;
    own.isSeen = true;
    undo.keep(own.tile, fresh, count, own.values);
  }

  /** Puts the rows of a tile back to the cut. Returns whether they may be used. */
  #putBack(
    { shard }: Shard,
    { undo, tile }: KeptTile,
    saved: SavedRows,
    values: readonly RowValues[],
    isIntact: (putBack: Int32Array) => boolean,
  ): boolean {
    const how = undoTo(undo, this.#at);
    const first = how?.logs.at(-1);
    if (how === undefined || first === undefined) return false;
    let good = true;
    saved.sums.set(sumsOf(undo, first, tile, saved.sums.length));
    for (const log of how.logs) {
      putBack(undo, log, tile, values, (rows) => {
        if (log === first) good &&= isIntact(rows);
      });
    }
    if (!good || !isIntact(new Int32Array(0))) return false; // K3
    this.inPlace.add(shard);
    if (!how.areMarksKnown) this.unmarked.add(shard);
    this.#keptBytes += bytesOf(values);
    return true;
  }

  #allocate(bytes: number): RowsMemory {
    const needed = wholeLines(bytes);
    if (needed >= arenaBytesMax / 4) return onLines(needed);
    const last = this.#arena;
    if (last === undefined || last.used + needed > last.buffer.byteLength) {
      const next = Math.min(arenaBytesMax, 2 * (last?.buffer.byteLength ?? arenaBytesMin / 2));
      const { buffer, at } = onLines(Math.max(next, needed));
      this.#arena = { buffer, used: at };
    }
    const arena = this.#arena ?? { buffer: new SharedArrayBuffer(needed), used: 0 };
    const at = arena.used;
    arena.used += needed;
    return { buffer: arena.buffer, at };
  }
}

/** New memory, and the offset of its first cache line: a row on two lines costs twice the reads. */
function onLines(bytes: number): RowsMemory {
  const buffer = new SharedArrayBuffer(bytes + lineBytes);
  const skew = loadAddon()?.skewOf?.(new Float32Array(buffer, 0, lineBytes / 4)) ?? 0;
  return { buffer, at: 4 * Number(skew) };
}

/** The arrays of a tile that change with its rows. */
function valuesIn({ memory, hashes }: TileRoom, rows: Rows, words: number): RowValues[] {
  const { buffer, at } = memory;
  const { dim, precision, state } = rows;
  const sized = { rows: rows.rows, dim, precision, stateWidth: state.shape[1] ?? 0 };
  const extent = rowsExtent(sized);
  const arrays = [extent.weights, extent.exponents, extent.state, extent.touched];
  const values = arrays.flatMap(({ at: from, rowBytes }): RowValues[] => {
    if (rowBytes === 0) return [];
    if (rowBytes % 4 !== 0) {
      return [{ bytes: new Uint8Array(buffer, at + from, rowBytes * rows.rows), width: rowBytes }];
    }
    const width = rowBytes / 4;
    return [{ words: new Int32Array(buffer, at + from, width * rows.rows), width }];
  });
  if (hashes.length === 0) return values;
  const noted = new Int32Array(buffer, hashes.byteOffset, hashes.length);
  return [...values, { words: noted, width: words }];
}

function rowBytesOf(values: readonly RowValues[]): number {
  return values.reduce((sum, one) => sum + ("words" in one ? 4 : 1) * one.width, 0);
}

function bytesOf(values: readonly RowValues[]): number {
  return values.reduce((sum, one) => sum + ("words" in one ? one.words : one.bytes).byteLength, 0);
}
