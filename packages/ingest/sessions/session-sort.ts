// An external sort of rows by session and time, then of whole sessions by their first time:
//
//   input order ──▶ runs by (session, time) ──▶ runs by (first time, session, time) ──▶
//
// Each arrow merges the runs before it; if there are too many runs for one merge, some are merged
// first. The sort is stable: rows with the same session and time keep their order. The bytes of
// rows are not decoded.
//
// S1: after each run the saved state names it and the number of input rows that it ends with. A
// process that resumes from the state produces the same sequence of rows, however the runs are
// divided.

import { join } from "node:path";
import { type Disk, onDisk } from "../../../internal.ts";
import type { TableSource } from "../warehouse/table-columns.ts";
import { Arena } from "./arena.ts";
import { Merge } from "./merge.ts";
import { RowWriter } from "./row-bytes.ts";
import { RowSum } from "./row-sum.ts";
import { type KeyedRow, RunWriter } from "./run-files.ts";
import { type SortColumns, SortKeys, timeBytes } from "./sort-keys.ts";
import { type Run, type SortingState, saveState } from "./sorting-state.ts";

/** Least memory of a sort. */
export const memoryMin = 2 ** 16;
/** Memory for reading a run during a merge. */
const readBytes = 64 * 1024;
/** Most memory of the rows of a run, as a buffer cannot exceed 4 GiB. */
const arenaBytesMax = 2 ** 31;
/** Most runs in one merge. */
const fanInMax = 64;
/** Rows between two calls of `breathe`. */
const rowsAtOnce = 4096;

/** The environment of a sort. */
export interface SortPlace {
  readonly disk: Disk;
  /** Directory of the runs. */
  readonly home: string;
  /** Approximate bytes of rows in memory. */
  readonly memory: number;
  /** Yields the thread; called every few thousand rows. @throws the signal's reason */
  breathe(): Promise<void>;
}

/** Sorts rows. Each step resumes from the saved state, and does nothing if it is complete. */
export class SessionSort {
  readonly #place: SortPlace;
  readonly #arena: Arena;
  readonly #fanIn: number;
  #state: SortingState;
  #rowsDone: number;

  constructor(place: SortPlace, state: SortingState) {
    this.#place = place;
    this.#state = state;
    this.#arena = new Arena(Math.min(arenaBytesMax, place.memory / 2));
    this.#rowsDone = state.read.rows + state.ordered.rows;
    this.#fanIn = Math.max(2, Math.min(fanInMax, Math.floor(place.memory / 4 / readBytes)));
  }

  get state(): SortingState {
    return this.#state;
  }

  /** Rows read plus rows ordered, for progress reports. */
  get rowsDone(): number {
    return this.#rowsDone;
  }

  /** Step 1: reads rows into runs by session. @throws InputUnusableError */
  async read(source: TableSource, columns: SortColumns): Promise<void> {
    const { read } = this.#state;
    if (read.isDone) return;
    const sum = new RowSum(read);
    let { bytes } = read;
    const keys = new SortKeys(columns);
    const writer = new RowWriter();
    const spill = (isDone: boolean) => {
      const runs = this.#spill(this.#state.bySession);
      this.#save({ bySession: runs, read: { ...sum.value, bytes, isDone } });
    };
    for await (const chunk of source.chunks(read.rows)) {
      const values = source.columns.map(({ name }) => chunk.columns.get(name) ?? []);
      for (let row = 0; row < chunk.rows; row++) {
        const key = keys.keyOf(chunk, row);
        writer.clear();
        for (const column of values) writer.add(column[row]);
        const rowBytes = writer.bytes;
        if (this.#arena.isFullFor(key.length + rowBytes.length)) {
          spill(false);
          await this.#place.breathe();
        }
        this.#arena.add(key, rowBytes);
        sum.add(rowBytes);
        bytes += rowBytes.length;
        this.#rowsDone++;
      }
      await this.#place.breathe();
    }
    spill(true);
  }

  /** Step 2: merges the runs by session into runs by time. */
  async order(): Promise<void> {
    if (this.#state.ordered.isDone) return;
    if (this.#state.ordered.rows === 0) await this.#reduce("bySession");
    const { ordered } = this.#state;
    let { rows } = ordered;
    let session = Buffer.from(ordered.session, "hex");
    let key = Buffer.from(ordered.first + ordered.session, "hex");
    const merge = this.#mergeOf(this.#state.bySession, ordered.places);
    const spill = (isDone: boolean) => {
      const first = key.subarray(0, timeBytes).toString("hex");
      const now = { rows, isDone, places: merge.places, session: session.toString("hex"), first };
      const byTime = this.#spill(this.#state.byTime);
      this.#save({ byTime, ordered: now, ...(isDone ? { bySession: [] } : {}) });
    };
    try {
      for (; merge.head !== undefined; merge.next()) {
        const { key: sessionKey, row } = merge.head;
        if (this.#arena.isFullFor(timeBytes + sessionKey.length + row.length)) {
          spill(false);
          await this.#place.breathe();
        }
        const ofSession = sessionKey.subarray(0, sessionKey.length - timeBytes);
        const time = sessionKey.subarray(sessionKey.length - timeBytes);
        if (rows === 0 || !ofSession.equals(session)) {
          session = Buffer.from(ofSession);
          key = Buffer.concat([time, session, time]);
        } else key = Buffer.concat([key.subarray(0, timeBytes), session, time]);
        this.#arena.add(key, row);
        this.#rowsDone++;
        if (++rows % rowsAtOnce === 0) await this.#place.breathe();
      }
      spill(true);
    } finally {
      merge.close();
    }
  }

  /** Takes rows with given keys, instead of steps 1 and 2. */
  async fill(rows: AsyncIterable<KeyedRow>): Promise<void> {
    for await (const { key, row } of rows) {
      if (this.#arena.isFullFor(key.length + row.length)) {
        this.#save({ byTime: this.#spill(this.#state.byTime) });
      }
      this.#arena.add(key, row);
    }
    this.#save({ byTime: this.#spill(this.#state.byTime) });
  }

  /** Step 3: the sorted rows, each valid until the next one. */
  async *rows(): AsyncGenerator<KeyedRow> {
    this.#arena.release();
    await this.#reduce("byTime");
    const merge = this.#mergeOf(this.#state.byTime);
    try {
      let rows = 0;
      for (; merge.head !== undefined; merge.next()) {
        yield merge.head;
        if (++rows % rowsAtOnce === 0) await this.#place.breathe();
      }
    } finally {
      merge.close();
    }
  }

  /** Merges adjacent runs, the smallest first, until the rest fit into one merge. */
  async #reduce(which: "bySession" | "byTime"): Promise<void> {
    for (;;) {
      const runs = this.#state[which];
      if (runs.length <= this.#fanIn) return;
      const count = Math.min(this.#fanIn, runs.length - this.#fanIn + 1);
      const from = smallestOf(runs, count);
      const group = runs.slice(from, from + count);
      const merge = this.#mergeOf(group);
      let merged: Run;
      try {
        merged = await this.#written(async (writer) => {
          let rows = 0;
          for (; merge.record !== undefined; merge.next()) {
            writer.add(merge.record);
            if (++rows % rowsAtOnce === 0) await this.#place.breathe();
          }
          return rows;
        });
      } finally {
        merge.close();
      }
      this.#save({ [which]: [...runs.slice(0, from), merged, ...runs.slice(from + count)] });
    }
  }

  /** Writes the rows in memory as a new run. Returns `runs` with it. */
  #spill(runs: readonly Run[]): Run[] {
    const rows = this.#arena.records;
    if (rows === 0) return [...runs];
    const { disk, home } = this.#place;
    const name = `${this.#state.made}.run`;
    return onDisk("write", home, () => {
      const writer = new RunWriter(disk, join(home, name));
      try {
        for (const record of this.#arena.take()) writer.add(record);
        return [...runs, { name, rows, bytes: writer.end() }];
      } finally {
        writer.close();
      }
    });
  }

  async #written(fill: (writer: RunWriter) => Promise<number>): Promise<Run> {
    const { disk, home } = this.#place;
    const name = `${this.#state.made}.run`;
    const writer = onDisk("write", home, () => new RunWriter(disk, join(home, name)));
    try {
      const rows = await fill(writer);
      return { name, rows, bytes: writer.end() };
    } finally {
      writer.close();
    }
  }

  #mergeOf(runs: readonly Run[], from: readonly number[] = []): Merge {
    const { disk, home, memory } = this.#place;
    const paths = runs.map(({ name }) => join(home, name));
    return onDisk("read", home, () => new Merge(disk, paths, { bytes: memory / 4, from }));
  }

  /** Saves the state. S1 */
  #save(changes: Partial<SortingState>): void {
    const { disk, home } = this.#place;
    this.#state = { ...this.#state, ...changes, made: this.#state.made + 1 };
    onDisk("write", home, () => {
      disk.syncDirectory(home);
      saveState(disk, home, this.#state);
    });
  }
}

/** Index of the first of `count` adjacent runs with the fewest bytes in sum. */
function smallestOf(runs: readonly Run[], count: number): number {
  const sums = Array.from({ length: runs.length - count + 1 }, (_, from) =>
    runs.slice(from, from + count).reduce((sum, { bytes }) => sum + bytes, 0),
  );
  return sums.indexOf(Math.min(...sums));
}
