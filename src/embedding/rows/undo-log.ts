// The undo log of a device: the former values of the rows that changed since the last cuts, in
// shared memory, so that rows in memory can be put back to a cut after their thread has ended, at
// whatever instruction (docs/decisions/0041-surviving-hosts-keep-their-rows.md).
//
//   header:  current · full[2] · used[2] · generation[2] · cut[2] · whole[2]
//   log:     record · record …, each on whole cache lines
//   record:  tile u32 | n u32 | lines u32 | 0 | row u32*n | array 0: n rows | array 1: n rows …
//
// There are two logs: `current` has the rows that changed since the last cut, the other one those
// between the cut before and the last. As at most one cut is not committed (the checkpoint
// coordinator's C3), a generation goes on from one of these two cuts.
//
// Invariants
//   U1. A row's values are in the log, and the log's `used` counts them, before the row changes. A
//       thread that ends in between has changed nothing that the log does not undo.
//   U2. A log holds a row at most once, with its values at the cut at which the log begins.
//   U3. A log is read only after the exit of the thread that writes it was seen (law 3).
//   U4. A log that has no room left is full: its rows can't be put back. It never grows.

import {
  type Kernels,
  lineBytes,
  type UndoneTile,
  type UndoTail,
  wholeLines,
} from "../../kernels/contract/kernels.ts";
import { undoHeadWords } from "../../kernels/contract/undo.ts";
import { loadAddon } from "../../ports/addon.ts";

/** The cut that a generation goes on from. */
export interface CutId {
  readonly generation: number;
  readonly cut: number;
}

/** The state before the first step, of which there is no checkpoint. */
export const initialCut: CutId = { generation: -1, cut: -1 };

/** Plain data and shared memory. */
export interface UndoMemory {
  readonly header: SharedArrayBuffer;
  readonly logs: readonly [SharedArrayBuffer, SharedArrayBuffer];
  /**
   * (2, tiles, `tileWords`): for each log and tile, the sums of the row hashes at the beginning of
   * the log; then, in the first log, 1 if the tile is damaged.
   */
  readonly sums: SharedArrayBuffer;
}

/** An array with values of each row: those of a row begin at a multiple of `width` bytes. */
export interface RowValues {
  readonly bytes: Uint8Array;
  readonly width: number;
}

/** Most words of a tile's sums (digest.ts). */
const sumWords = 4;
const tileWords = sumWords + 1;

/** Words of the header; those with two values have one for each log. */
const at = { current: 0, full: 1, used: 3, generation: 5, cut: 7, whole: 9 } as const;
const headerWords = 11;

const lineWords = lineBytes / 4;

/** How far ahead of its records a log's pages are cleared: a share of the log, and a limit. */
const aheadShare = 1 / 8;
const aheadBytesMax = 64 * 1024 * 1024;

/** Upper bound of the bytes that the log needs for all rows of a tile. */
export function undoBytesMax(rows: number, rowBytes: number): number {
  return rows * wholeLines(4 * (undoHeadWords + 1) + rowBytes + 16);
}

/** A log is read and written through one array of bytes (Node.js 20). */
const logBytesMax = 2 ** 32 - lineBytes;

/** Allocates the memory of both logs; untouched pages cost nothing. */
export function allocateUndo(tiles: number, logBytes: number): UndoMemory {
  const bytes = Math.min(logBytesMax, Math.floor(logBytes / lineBytes) * lineBytes);
  const log = () => new SharedArrayBuffer(bytes);
  return {
    header: new SharedArrayBuffer(4 * headerWords),
    logs: [log(), log()],
    sums: new SharedArrayBuffer(4 * 2 * tiles * tileWords),
  };
}

/** The sums of a tile at the beginning of a log. */
export function sumsOf({ sums }: UndoMemory, log: number, tile: number, words: number) {
  const tiles = sums.byteLength / (4 * 2 * tileWords);
  return new Uint32Array(sums, 4 * (log * tiles + tile) * tileWords, words);
}

/** A word: 1 if the rows of the tile are damaged, so that no log can put them back. */
export function damageOf({ sums }: Pick<UndoMemory, "sums">, tile: number): Uint32Array {
  return new Uint32Array(sums, 4 * (tile * tileWords + sumWords), 1);
}

/** The end of a device's thread that writes the log. */
export class UndoLog {
  readonly memory: UndoMemory;
  readonly #header: Int32Array;
  readonly #tails: readonly UndoTail[];
  /** Bytes of each log with pages that are or will be cleared. */
  readonly #cleared = [0, 0];

  constructor(memory: UndoMemory) {
    this.memory = memory;
    this.#header = new Int32Array(memory.header);
    this.#tails = memory.logs.map((log, i) => ({
      bytes: new Uint8Array(log),
      used: new Int32Array(memory.header, 4 * (at.used + i), 1),
    }));
    for (const log of memory.logs.keys()) this.#clearAhead(log);
  }

  /** Whether the current log is full. U4 */
  get isFull(): boolean {
    return this.#get(at.full, this.#current) === 1;
  }

  get #current(): number {
    return this.#header[at.current] ?? 0;
  }

  /**
   * Notes that a cut with whole parts begins. It resets the marks of all their rows, so after a
   * return to an earlier cut the marks do not show what changed since that cut's baseline.
   */
  beginWhole(): void {
    this.#set(at.whole, this.#current, 1);
  }

  /** Begins the log of the rows that change after a cut; returns its number, for `sumsOf`. */
  next(): number {
    return 1 - this.#current;
  }

  /** Makes the log of `next` the current one: the device has taken the cut. */
  begin({ generation, cut }: CutId): void {
    const log = this.next();
    this.#set(at.full, log, 1); // Unusable until all of it is written.
    this.#set(at.used, log, 0);
    this.#set(at.generation, log, generation);
    this.#set(at.cut, log, cut);
    this.#set(at.whole, log, 0);
    this.#set(at.full, log, 0);
    Atomics.store(this.#header, at.current, log);
  }

  /** Makes the other log unusable: the device's rows have no cut before this one. */
  forgetFormer(): void {
    this.#set(at.full, 1 - this.#current, 1);
  }

  /** Copies the values of rows that are about to change, by `Kernels.keepRows`. U1, U2 */
  keep(kernels: Kernels, tiles: readonly UndoneTile[], ids: Int32Array, ranges: Int32Array): void {
    const log = this.#current;
    const tail = this.#tails[log];
    if (tail === undefined) return;
    if (kernels.keepRows(tail, tiles, ids, ranges)) this.#clearAhead(log);
    else this.#set(at.full, log, 1); // U4
  }

  /** Lets another thread clear the log's next pages, whose first use would delay this thread. */
  #clearAhead(log: number): void {
    const { bytes, used } = this.#tails[log] ?? {};
    if (bytes === undefined || used === undefined) return;
    const [done = 0, next = 0] = [this.#cleared[log], lineBytes * (used[0] ?? 0)];
    const ahead = Math.min(aheadBytesMax, bytes.length * aheadShare);
    const end = Math.min(bytes.length, Math.floor(Math.max(done, next) + ahead));
    if (done - next > ahead / 2 || end <= done) return;
    loadAddon()?.clearPages?.(bytes, done, end - done);
    this.#cleared[log] = end;
  }

  #get(field: number, log: number): number {
    return this.#header[field + log] ?? 0;
  }

  #set(field: number, log: number, value: number): void {
    Atomics.store(this.#header, field + log, value);
  }
}

/** Bytes of an array in a record of `count` rows. */
function arrayBytes({ width }: RowValues, count: number): number {
  return 4 * Math.ceil((width * count) / 4);
}

/** The logs that put rows back to a cut. */
export interface Undo {
  /** The logs to apply, in this order. */
  readonly logs: readonly number[];
  /** Whether the rows' marks show what changed since the cut's baseline (changed-rows.ts). */
  readonly areMarksKnown: boolean;
}

/** The logs that put rows of this memory back to a cut; undefined: a log is full or missing. U3 */
export function undoTo({ header }: UndoMemory, { generation, cut }: CutId): Undo | undefined {
  const words = new Int32Array(header);
  const current = Atomics.load(words, at.current);
  const get = (field: number, log: number) => Atomics.load(words, field + log);
  const logs: number[] = [];
  let areMarksKnown = true;
  for (const log of [current, 1 - current]) {
    if (get(at.full, log) === 1) return undefined;
    logs.push(log);
    areMarksKnown &&= get(at.whole, log) === 0;
    if (get(at.generation, log) === generation && get(at.cut, log) === cut) {
      return { logs, areMarksKnown };
    }
  }
  return undefined;
}

/**
 * Puts the rows of a tile back to their values in a log, and passes their numbers to `onRows`. May
 * be called again after an interruption.
 */
export function putBack(
  kernels: Kernels,
  { header, logs }: UndoMemory,
  log: number,
  tile: number,
  values: readonly RowValues[],
  onRows: (rows: Int32Array) => void,
): void {
  const memory = logs[log];
  if (memory === undefined) throw new RangeError(`There is no log ${log}`);
  const [words, bytes] = [new Int32Array(memory), new Uint8Array(memory)];
  const end = lineWords * Atomics.load(new Int32Array(header), at.used + log);
  for (let first = 0; first < end; first += lineWords * (words[first + 2] ?? 1)) {
    if (words[first] !== tile) continue;
    const count = words[first + 1] ?? 0;
    let from = 4 * (first + undoHeadWords);
    const rows = Int32Array.from(words.subarray(first + undoHeadWords).subarray(0, count));
    from += 4 * count;
    for (const one of values) {
      const size = arrayBytes(one, count);
      const own = bytes.subarray(from, from + size);
      kernels.moveRecords(one.bytes, rows, own, undefined, count, one.width);
      from += size;
    }
    onRows(rows);
  }
}
