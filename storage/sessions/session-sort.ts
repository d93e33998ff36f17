// Sorts rows by session and time in a bounded memory, then whole sessions by their first time:
//
//   rows in their order ──▶ runs by (session, time) ──▶ runs by (first time, session, time) ──▶
//
// An arrow is a merge of runs; too many runs for one merge are merged to fewer before. Rows of one
// session and time keep their order, as do equal rows of runs. Bytes of rows are carried along as
// they are.
//
// S1: after each run the state names it, and where its rows end: a process that goes on from there
// makes the same sequence of rows, however its runs are cut.

import { join } from "node:path";
import type { Disk } from "../../src/ports/disk.ts";
import { onDisk } from "../disk/durable-files.ts";
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
/** Memory that a run needs while it is read. */
const readBytes = 64 * 1024;
/** Most memory of rows that become a run: a buffer has no more than 4 GiB. */
const arenaBytesMax = 2 ** 31;
/** Most runs of a merge. */
const fanInMax = 64;
/** Rows between two breaths. */
const rowsAtOnce = 4096;

/** What a sort works with. */
export interface SortPlace {
  readonly disk: Disk;
  /** Directory of the runs. */
  readonly home: string;
  /** Bytes of rows in memory, about. */
  readonly memory: number;
  /** Called every some thousand rows. @throws the signal's reason */
  breathe(): Promise<void>;
}

/** Sorts rows. Each step does what is left of it, and nothing where it is done. */
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

  /** Rows that were read, and again when they were ordered. */
  get rowsDone(): number {
    return this.#rowsDone;
  }

  /** Makes runs by session of the rows. @throws InputUnusableError */
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
        const own = writer.bytes;
        if (this.#arena.isFullFor(key.length + own.length)) {
          spill(false);
          await this.#place.breathe();
        }
        this.#arena.add(key, own);
        sum.add(own);
        bytes += own.length;
        this.#rowsDone++;
      }
      await this.#place.breathe();
    }
    spill(true);
  }

  /** Makes runs by time of those by session. */
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
        const { key: own, row } = merge.head;
        if (this.#arena.isFullFor(timeBytes + own.length + row.length)) {
          spill(false);
          await this.#place.breathe();
        }
        const ofSession = own.subarray(0, own.length - timeBytes);
        const time = own.subarray(own.length - timeBytes);
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

  /** Takes rows with keys of their own, instead of all steps before. */
  async fill(rows: AsyncIterable<KeyedRow>): Promise<void> {
    for await (const { key, row } of rows) {
      if (this.#arena.isFullFor(key.length + row.length)) {
        this.#save({ byTime: this.#spill(this.#state.byTime) });
      }
      this.#arena.add(key, row);
    }
    this.#save({ byTime: this.#spill(this.#state.byTime) });
  }

  /** The rows in their order, each valid until the next. */
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

  /** Merges runs side by side, the smallest first, until one merge takes the rest. */
  async #reduce(which: "bySession" | "byTime"): Promise<void> {
    for (;;) {
      const runs = this.#state[which];
      if (runs.length <= this.#fanIn) return;
      const count = Math.min(this.#fanIn, runs.length - this.#fanIn + 1);
      const from = smallestOf(runs, count);
      const own = runs.slice(from, from + count);
      const merge = this.#mergeOf(own);
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

  /** The runs with one more, of the rows in memory. */
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

  /** S1 */
  #save(changes: Partial<SortingState>): void {
    const { disk, home } = this.#place;
    this.#state = { ...this.#state, ...changes, made: this.#state.made + 1 };
    onDisk("write", home, () => {
      disk.syncDirectory(home);
      saveState(disk, home, this.#state);
    });
  }
}

/** Where so many neighbours begin that have the fewest bytes. */
function smallestOf(runs: readonly Run[], count: number): number {
  const sums = Array.from({ length: runs.length - count + 1 }, (_, from) =>
    runs.slice(from, from + count).reduce((sum, { bytes }) => sum + bytes, 0),
  );
  return sums.indexOf(Math.min(...sums));
}
