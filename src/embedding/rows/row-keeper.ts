// The row keeper of a device: shared memory for the rows of its shards, which outlives the thread,
// and the undo log by which the next generation puts the rows back to the cut that it goes on from,
// instead of reading them (docs/decisions/0041-surviving-hosts-keep-their-rows.md).
//
// Invariants
//   K1. One thread at a time uses the memory of a tile: a thread gets a tile only after the exit of
//       the tile's former threads was seen (law 3).
//   K2. Until `tiles` is called, the former thread's undo log stays valid, and rows change only by
//       being put back from it: so putting back may be repeated after a failure.
//   K3. A tile is used only if the checked rows have the hashes that the last cut noted. Otherwise
//       it is marked as damaged before its rows get initial values, which would pass this check.
//   K4. A device that takes cuts of a tile gets memory in which earlier cuts noted marks, hashes
//       and sums, as the next digest is computed from these sums. The undo log cannot supply them:
//       it does not record rows that only a cut changes, by noting them for the first time.

import {
  type Kernels,
  lineBytes,
  type Rows,
  type RowsMemory,
  rowsExtent,
  type SizedRows,
  type UndoneTile,
  wholeLines,
} from "../../kernels/contract/kernels.ts";
import { loadAddon } from "../../ports/addon.ts";
import type { Shard } from "../tables/shards.ts";
import type { SavedRows } from "./changed-rows.ts";
import {
  allocateUndo,
  type CutId,
  damageOf,
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
  /** Identifies the rows and the layout of the memory: see `tileKey`. */
  readonly key: string;
  readonly memory: RowsMemory;
  /** The tile's number in the log. */
  readonly tile: number;
  readonly undo: UndoMemory;
}

/**
 * Identifies, within a job, the rows and the layout of a tile's memory, and whether cuts note marks
 * and hashes in it: of a replicated shard only device 0's copy is cut. K4
 */
export function tileKey(
  {
    table,
    firstBlock,
    blocks,
    firstQuantum,
    quanta,
    device,
  }: Pick<Shard, "table" | "firstBlock" | "blocks" | "firstQuantum" | "quanta" | "device">,
  rank: number,
): string {
  const tile = `${table}.${firstBlock}.${blocks}.${firstQuantum}.${quanta}`;
  return device === "all" && rank > 0 ? `${tile}.copy` : tile;
}

/** The memory of a tile: its rows, and what cuts note of them (changed-rows.ts). */
export interface TileRoom {
  readonly memory: RowsMemory;
  readonly sums: Uint32Array;
  readonly hashes: Uint32Array;
}

/** A tile whose changes are followed. */
export interface TrackedTile {
  /**
   * Contents of the memory. `kept`: the rows as of the cut; `stale`: unusable rows, to be
   * initialised; `new`: zeros.
   */
  readonly found: "kept" | "stale" | "new";
  /** For `RowKeeper.changing`. */
  readonly undone: UndoneTile;
}

/** Tiles of at least this size have memory of their own; others share it. */
const arenaBytesMax = 16 * 1024 * 1024;
const arenaBytesMin = 64 * 1024;

interface Tracked {
  readonly undone: UndoneTile;
  readonly saved: SavedRows;
}

export class RowKeeper {
  /** Shards whose rows are in place, and need not be restored. */
  readonly inPlace = new Set<number>();
  /** Shards of `inPlace` whose marks do not show which rows changed since the baseline. */
  readonly unmarked = new Set<number>();
  readonly #given = new Map<string, KeptTile[]>();
  readonly #at: CutId;
  readonly #undoBytes: number;
  readonly #name: string;
  readonly #rank: number;
  readonly #tracked: Tracked[] = [];
  readonly #tiles: Omit<KeptTile, "undo">[] = [];
  readonly #roomOf = new WeakMap<TileRoom, KeptTile | Omit<KeptTile, "undo" | "tile">>();
  #arena: { readonly buffer: SharedArrayBuffer; used: number } | undefined;
  #undo: UndoLog | undefined;
  #undoNeeded = 0;
  #wasFull = false;
  /** Tiles with rows that the current log may hold. */
  readonly #seen = new Set<UndoneTile>();
  #keptBytes = 0;

  /** `given`: tiles of device `rank` that former threads held. `name`: unique in the run. */
  constructor(options: {
    readonly given: readonly KeptTile[];
    readonly at: CutId;
    readonly undoBytes: number;
    readonly name: string;
    readonly rank: number;
  }) {
    this.#at = options.at;
    this.#undoBytes = options.undoBytes;
    this.#name = options.name;
    this.#rank = options.rank;
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
    const key = tileKey(shard, this.#rank);
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
   * Puts the rows in `room` back to the cut, if a former thread left any, and begins to track
   * changes. `isIntact`: whether these rows, and some others, have the hashes that the last cut
   * noted.
   */
  track(
    kernels: Kernels,
    shard: Shard,
    room: TileRoom,
    rows: Rows,
    saved: SavedRows,
    isIntact: (putBack: Int32Array) => boolean,
  ): TrackedTile {
    const held = this.#roomOf.get(room);
    if (held === undefined) throw new RangeError(`The keeper has no memory of ${shard.name}`);
    const values = valuesIn(room, rows, saved.hashing.words);
    const isOld = "undo" in held;
    const isKept = isOld && this.#putBack(kernels, shard, held, saved, values, isIntact);
    const found = isKept ? "kept" : isOld ? "stale" : "new";
    const tile = this.#tracked.length;
    const { id, key, memory } = held;
    const undone: UndoneTile = {
      ...{ tile, rows: shard.rows, seen: new Int32Array(Math.ceil(shard.rows / 32)) },
      arrays: values.map(({ bytes }) => bytes),
      rowBytes: values.map(({ width }) => width),
    };
    this.#tracked.push({ undone, saved });
    this.#tiles.push({ id, key, memory, tile });
    this.#undoNeeded += undoBytesMax(shard.rows, rowBytesOf(values));
    return { found, undone };
  }

  /**
   * Called before rows change, so that the log has their former values first (U1 of undo-log.ts).
   * The rows of tiles[i] are ids[ranges[2i]] .. ids[ranges[2i+1]-1].
   */
  changing(
    kernels: Kernels,
    tiles: readonly UndoneTile[],
    ids: Int32Array,
    ranges: Int32Array,
  ): void {
    const undo = this.#undo;
    if (undo === undefined || undo.isFull) return;
    for (const tile of tiles) this.#seen.add(tile);
    undo.keep(kernels, tiles, ids, ranges);
  }

  /**
   * Begins to log changes. All shards must have the state of the cut that the generation continues.
   */
  begin(): void {
    const bytes = Math.min(this.#undoBytes / 2, this.#undoNeeded);
    const memory = allocateUndo(this.#tracked.length, bytes);
    for (const log of memory.logs) useLargePages(log);
    this.#undo = new UndoLog(memory);
    this.#next(this.#undo, this.#at);
    this.#undo.forgetFormer();
  }

  /** The device begins to take a cut; `isWhole`: whether any part of it is whole. */
  beginCut(isWhole: boolean): void {
    if (isWhole) this.#undo?.beginWhole();
  }

  /** The device has taken a cut. Returns whether the log was full before it, for the first time. */
  endCut(cut: CutId): boolean {
    if (this.#undo === undefined) return false;
    const isFirst = this.#undo.isFull && !this.#wasFull;
    this.#wasFull ||= isFirst;
    this.#next(this.#undo, cut);
    return isFirst;
  }

  /** The memory of all tiles, for the next generation. K2 */
  tiles(): KeptTile[] {
    const undo = this.#undo?.memory;
    return undo === undefined ? [] : this.#tiles.map((tile) => ({ ...tile, undo }));
  }

  #next(undo: UndoLog, cut: CutId): void {
    const log = undo.next();
    for (const { undone, saved } of this.#tracked) {
      sumsOf(undo.memory, log, undone.tile, saved.sums.length).set(saved.sums);
    }
    for (const { seen } of this.#seen) seen.fill(0);
    this.#seen.clear();
    undo.begin(cut);
  }

  /** Puts the rows of a tile back to the cut. Returns whether they may be used. */
  #putBack(
    kernels: Kernels,
    { shard }: Shard,
    { undo, tile }: KeptTile,
    saved: SavedRows,
    values: readonly RowValues[],
    isIntact: (putBack: Int32Array) => boolean,
  ): boolean {
    const how = undoTo(undo, this.#at);
    const first = how?.logs.at(-1);
    const damage = damageOf(undo, tile);
    if (how === undefined || first === undefined || damage[0] === 1) return false;
    let good = true;
    saved.sums.set(sumsOf(undo, first, tile, saved.sums.length));
    for (const log of how.logs) {
      putBack(kernels, undo, log, tile, values, (rows) => {
        if (log === first) good &&= isIntact(rows);
      });
    }
    if (!good || !isIntact(new Int32Array(0))) {
      damage[0] = 1; // K3
      return false;
    }
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

/** Whether the arrays of such rows can be kept: the log reads each as one array of bytes. */
export function isKeepable(sized: SizedRows, words: number): boolean {
  const { weights, state } = rowsExtent(sized);
  const widest = Math.max(weights.rowBytes, state.rowBytes, 4 * words);
  return sized.rows * widest < 2 ** 32;
}

/**
 * New memory, on large pages if the system provides them, and the offset of its first cache line: a
 * row on two lines costs twice the reads.
 */
function onLines(bytes: number): RowsMemory {
  const buffer = new SharedArrayBuffer(bytes + lineBytes);
  useLargePages(buffer);
  const skew = loadAddon()?.skewOf?.(new Float32Array(buffer, 0, lineBytes / 4)) ?? 0;
  return { buffer, at: 4 * Number(skew) };
}

/** Random rows of a large table cost more time for the translation of addresses than for reads. */
function useLargePages(buffer: SharedArrayBuffer): void {
  loadAddon()?.useLargePages?.(new Float32Array(buffer, 0, Math.floor(buffer.byteLength / 4)));
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
    return [{ bytes: new Uint8Array(buffer, at + from, rowBytes * rows.rows), width: rowBytes }];
  });
  if (hashes.length === 0) return values;
  const noted = new Uint8Array(buffer, hashes.byteOffset, hashes.byteLength);
  return [...values, { bytes: noted, width: 4 * words }];
}

function rowBytesOf(values: readonly RowValues[]): number {
  return values.reduce((sum, { width }) => sum + width, 0);
}

function bytesOf(values: readonly RowValues[]): number {
  return values.reduce((sum, { bytes }) => sum + bytes.byteLength, 0);
}
