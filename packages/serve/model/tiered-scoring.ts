// Scoring with tables on disk: the rows that a piece reads are fetched into the cache before the
// scorer, which is synchronous, reads them. Models without such tables do not use it.
//
//   piece ──▶ its rows ──▶ fetched ──▶ scored ──▶ released
//     ▲          │ if they exceed the cache
//     └── halves ┘
//
// Invariants
//   S1. One call at a time fetches and scores, and versions change between two calls: rows fetched
//       for a call stay until it is scored, and no answer mixes two versions.

import {
  BagMaker,
  type EncodedBatch,
  expected,
  type LookupSet,
  lookupSet,
  type Piece,
  type PredictingVersion,
  type Predictor,
  piecesOf,
  type RowPlaces,
  type ServedLookups,
} from "../../../internal.ts";
import type { LoadedTable } from "./load-tables.ts";
import type { RowCounts, TieredTable } from "./tiered-table.ts";

/** A version with tables on disk. */
export interface TieredVersion extends PredictingVersion {
  readonly predictor: Predictor;
  readonly rows: { readonly tables: readonly LoadedTable[]; readonly steps: number };
}

export class TieredScoring {
  readonly #bags: BagMaker;
  readonly #all: LookupSet;
  readonly #tables: readonly TieredTable[];
  /** For each table, the rows that the current piece reads. */
  readonly #found: RowList[];
  #last: Promise<unknown> = Promise.resolve();

  constructor(lookups: ServedLookups, tables: readonly LoadedTable[]) {
    this.#bags = new BagMaker(lookups);
    this.#all = lookupSet(lookups.lookups);
    this.#tables = tables.flatMap(({ tier }) => tier?.table ?? []);
    this.#found = tables.map(() => new RowList());
  }

  get counts(): RowCounts {
    const sum = { hits: 0, misses: 0 };
    for (const { counts } of this.#tables) {
      sum.hits += counts.hits;
      sum.misses += counts.misses;
    }
    return sum;
  }

  /** Runs `act` while no other call runs, in the order of the calls. S1 */
  alone<T>(act: () => Promise<T>): Promise<T> {
    const done = this.#last.then(act);
    this.#last = done.catch(() => {}); // The caller gets the error; the next call does not.
    return done;
  }

  /**
   * Scores pieces one after the other, `samples` samples in all. Call it within `alone`.
   * @throws TierReadError, RecordCorruptError
   * @throws InvalidOptionError where the rows of one sample do not fit into the cache
   */
  async scores(
    pieces: Iterable<Piece>,
    samples: number,
    version: TieredVersion,
  ): Promise<Float32Array> {
    const { length: tasks } = version.predictor.tasks;
    const out = new Float32Array(samples * tasks);
    const waiting = [...pieces].reverse();
    for (let piece = waiting.pop(); piece !== undefined; piece = waiting.pop()) {
      const { tables } = version.rows;
      this.#find(piece, tables);
      const full = tables.findIndex(({ tier }, i) => {
        return tier !== undefined && !tier.table.hasRoomFor(this.#rowsOf(i));
      });
      if (full >= 0) {
        waiting.push(...halvesOf(piece, () => this.#noRoom(full, tables)).reverse());
        continue;
      }
      try {
        await this.#fetch(tables);
        out.set(version.predictor.scored(piece, version), tasks * piece.first);
      } finally {
        for (const table of this.#tables) table.release();
      }
    }
    return out;
  }

  /** Closes the files after the last call is done. */
  async close(): Promise<void> {
    await this.#last;
    for (const table of this.#tables) table.close();
  }

  async #fetch(tables: readonly LoadedTable[]): Promise<void> {
    const ends = await Promise.allSettled(
      tables.map(({ tier }, i) => tier?.table.fetch(this.#rowsOf(i), tier.copies)),
    );
    for (const end of ends) if (end.status === "rejected") throw end.reason;
  }

  /** Lists the rows of tables on disk that a piece reads. */
  #find(piece: Piece, tables: readonly LoadedTable[]): void {
    for (const found of this.#found) found.clear();
    const listing = tables.map(({ tier, ids, ...table }, i): RowPlaces => {
      if (tier === undefined) return table;
      const find: RowPlaces["find"] = (low, high) => {
        const row = ids === undefined ? low : ids.find(low, high);
        if (row >= 0) this.#found[i]?.add(row);
        return row;
      };
      return { places: undefined, base: 0, find };
    });
    for (const batch of batchesOf(piece)) {
      const first = batch === piece.ranked?.user ? 0 : piece.first;
      this.#bags.take(batch, this.#all, listing, first);
    }
  }

  #rowsOf(table: number): Int32Array {
    return this.#found[table]?.rows ?? new Int32Array(0);
  }

  #noRoom(full: number, tables: readonly LoadedTable[]): Error {
    const { capacity = 0, initial } = tables[full]?.tier?.table ?? {};
    const rows = new Set(this.#rowsOf(full)).size;
    const table = `table \`${initial?.spec.name}\``;
    const wanted = `room for the ${rows} rows of ${table} that one sample reads`;
    return expected("memoryBytes", wanted, `room for ${capacity} in all`);
  }
}

function batchesOf({ batch, ranked }: Piece): readonly EncodedBatch[] {
  return ranked === undefined ? [batch] : [ranked.user, ranked.candidates];
}

/** Splits a piece in two. @throws the error of `noRoom` where it has only one sample */
function halvesOf(piece: Piece, noRoom: () => Error): Piece[] {
  const { ranked } = piece;
  const batch = ranked?.candidates ?? piece.batch;
  const { samples = 0 } = batch ?? {};
  if (samples < 2 || batch === undefined) throw noRoom();
  let { first } = piece;
  return [...piecesOf(batch, Math.ceil(samples / 2))].map((half) => {
    const at = first;
    first += half.samples;
    return ranked === undefined
      ? { first: at, batch: half, ranked }
      : { first: at, batch: undefined, ranked: { ...ranked, candidates: half } };
  });
}

/** A growable list of rows, whose memory is reused. */
class RowList {
  #all = new Int32Array(64);
  #count = 0;

  get rows(): Int32Array {
    return this.#all.subarray(0, this.#count);
  }

  add(row: number): void {
    if (this.#count === this.#all.length) {
      const more = new Int32Array(2 * this.#count);
      more.set(this.#all);
      this.#all = more;
    }
    this.#all[this.#count++] = row;
  }

  clear(): void {
    this.#count = 0;
  }
}
