// The ring between a device and its tier thread: requests in shared memory, executed in order.
// The device writes a request into the next slot; the tier thread reads the slot and writes the
// answer beside the request. Two counters record the progress:
//
//   posted   requests that the device has posted
//   served   requests that the tier has executed
//
// A slot has room for the rows of a usual batch (src/data/ids-room.ts). A request with more rows
// goes through several slots, in pieces, and the device joins their answers.
//
// Invariants
//   T1. A slot is reused only after its request was executed and its answer was released, or copied
//       to memory of the device: a device with any number of pieces in flight never waits for
//       itself.
//   T2. Each entry goes through a slot as soon as one of its rows fits; an empty slot takes a row
//       of any shard.

import assert from "node:assert/strict";
import type { BackingStore, FetchedRecords } from "../../src/embedding/rows/backing-store.ts";
import type { Cells } from "../../src/exchange/cells.ts";
import {
  type Kind,
  type RingPlace,
  type Slot,
  scanRows,
  slotsOf,
  type TierEntry,
} from "./ring-slots.ts";

/** Cells of a ring: posted, served. */
export const tierRingCells = 2;

/** Requests that the device has posted and the tier has not executed. */
export function tierRequests(cells: Pick<Cells, "load">, cellBase: number): number {
  return (cells.load(cellBase) - cells.load(cellBase + 1)) | 0;
}

/** The reads of one request, of which some pieces may still be in slots of the ring. */
class Question {
  /** Requests of the ring with its reads, oldest first. */
  readonly inSlots: number[] = [];
  /** Answers that were copied out of their slots. T1 */
  readonly copied: TierEntry[] = [];
  /** Entries of each read. */
  readonly pieces: number[] = [];
  hits = 0;
}

/** The device's end. `onPost` runs after each posted request; inline tiers execute it there. */
export function createBackingStore(place: RingPlace, onPost: () => void = () => {}): BackingStore {
  const { shape, cells, cellBase, peer } = place;
  const [postedCell, servedCell] = [cellBase, cellBase + 1];
  const slotOf = slotsOf(place);
  const atOf = new Map(shape.shards.map(({ shard }, at) => [shard, at]));
  /** Requests whose answer is pending or not yet released, oldest first. */
  const pending: Question[] = [];
  let question = new Question();
  let posted = 0;
  const counts = { requested: 0, hits: 0 };
  const placeOf = (shard: number): number => {
    const at = atOf.get(shard);
    assert(at !== undefined, `shard ${shard} lies below this device`);
    return at;
  };
  const served = (request: number, what: string) => {
    const wait = () => `the tiers to ${what} (request ${request})`;
    return cells.waitUntil(wait, () => cells.load(servedCell) > request, peer);
  };
  const begin = async (): Promise<void> => {
    const before = posted - shape.slots;
    if (before >= 0) await served(before, "make room");
    const holder = pending.find(({ inSlots }) => inSlots[0] === before);
    if (holder !== undefined) {
      holder.inSlots.shift();
      holder.copied.push(...readsIn(slotOf(before)).map(copyOf)); // T1
      holder.hits += slotOf(before).hits;
    }
    slotOf(posted).clear();
  };
  const post = (): void => {
    const slot = slotOf(posted);
    if (slot.entries === 0) return;
    if (expectsAnswer(slot)) {
      if (pending.at(-1) !== question) pending.push(question);
      question.inSlots.push(posted);
    }
    posted++;
    cells.store(postedCell, posted, [peer]);
    onPost();
  };
  const open = async (): Promise<void> => {
    question = new Question();
    await begin();
  };
  /** Adds an entry of `count` rows, in pieces. Returns their number. T2 */
  const add = async (
    kind: Kind,
    at: number,
    count: number,
    fill: (piece: TierEntry, first: number) => void,
  ): Promise<number> => {
    let pieces = 0;
    for (let first = 0; first < count; ) {
      const some = Math.min(count - first, slotOf(posted).roomFor(at));
      if (some > 0) {
        fill(slotOf(posted).add(kind, at, some), first);
        pieces++;
        first += some;
      }
      if (first === count) break;
      post();
      await begin();
    }
    return pieces;
  };
  /** Posts a request of one entry and returns its answer. */
  const query = async (kind: Kind, at: number, rows: number, what: string, first = 0) => {
    await open();
    slotOf(posted).add(kind, at, rows).rows[0] = first;
    post();
    const [request = 0] = question.inSlots;
    await served(request, what);
    return slotOf(request).read(0);
  };
  return {
    open,
    async down(shard, count, fill) {
      await add("down", placeOf(shard), count, fill);
    },
    drop(shard, rows) {
      slotOf(posted).add("drop", placeOf(shard), rows.length).rows.set(rows);
    },
    async up(shard, rows) {
      const own = question;
      const pieces = await add("up", placeOf(shard), rows.length, (piece, first) => {
        piece.rows.set(rows.subarray(first, first + piece.rows.length));
      });
      own.pieces.push(pieces);
    },
    post,
    counts,
    async answer(isOfBatch): Promise<readonly FetchedRecords[]> {
      const [oldest] = pending;
      assert(oldest !== undefined, "an answer is expected only while a request is pending");
      const { inSlots, copied, pieces } = oldest;
      for (const request of inSlots) await served(request, "bring rows up");
      const found = [...copied, ...inSlots.flatMap((request) => readsIn(slotOf(request)))];
      if (isOfBatch !== undefined) {
        counts.requested += found.reduce((sum, { rows }) => sum + rows.length, 0);
        counts.hits += inSlots.reduce((sum, one) => sum + slotOf(one).hits, oldest.hits);
      }
      return pieces.map((count) => joined(found.splice(0, count)));
    },
    close() {
      pending.shift();
    },
    async kept() {
      const { rows } = await query("kept", 0, shape.shards.length, "open");
      const kept = shape.shards.filter((_, at) => rows[at] === 1);
      pending.shift();
      return new Set(kept.map(({ shard }) => shard));
    },
    async *scan(shard) {
      const at = placeOf(shard);
      const { rows = 0 } = shape.shards[at] ?? {};
      const rowsMax = scanRows({ rows });
      for (let from = 0; from < rows; ) {
        const found: TierEntry = await query("scan", at, rowsMax, "read a table", from);
        if (found.rows.length > 0) yield found;
        pending.shift();
        from = found.rows.length < rowsMax ? rows : (found.rows.at(-1) ?? 0) + 1;
      }
    },
  };
}

/** The reads of a request. */
function readsIn(slot: Slot): TierEntry[] {
  const entries = Array.from({ length: slot.entries }, (_, i) => slot.read(i));
  return entries.filter(({ kind }) => kind === "up");
}

function copyOf(entry: TierEntry): TierEntry {
  const { rows, found, records } = entry;
  return { ...entry, rows: rows.slice(), found: found.slice(), records: records.slice() };
}

/** The answers to the pieces of one read. */
function joined(pieces: readonly TierEntry[]): FetchedRecords {
  const [only] = pieces;
  if (only !== undefined && pieces.length === 1) return only;
  const bytesOf = (of: (piece: TierEntry) => Uint8Array) => {
    const all = pieces.map(of);
    const bytes = new Uint8Array(all.reduce((sum, { length }) => sum + length, 0));
    let end = 0;
    for (const one of all) {
      bytes.set(one, end);
      end += one.length;
    }
    return bytes;
  };
  return { found: bytesOf(({ found }) => found), records: bytesOf(({ records }) => records) };
}

/** Whether a request expects an answer. */
function expectsAnswer(slot: Slot): boolean {
  const kinds = Array.from({ length: slot.entries }, (_, i) => slot.read(i).kind);
  return kinds.some((kind) => kind !== "down" && kind !== "drop");
}

/** The tier's end. */
export interface TierEnd {
  /** Resolves when there is a request, or when `isDue()` returns true. */
  wait(isDue?: () => boolean): Promise<void>;
  /** The oldest request that is not executed yet; undefined: none. */
  next(): TierRequest | undefined;
  /** Marks the request as executed; `hits` of its rows did not come from the disk. */
  done(hits: number): void;
}

export interface TierRequest {
  readonly entries: readonly TierEntry[];
  /** Sets the number of rows that scan entry `entry` found. */
  shorten(entry: number, count: number): void;
}

export function createTierEnd(place: RingPlace): TierEnd {
  const { cells, cellBase, peer } = place;
  const slotOf = slotsOf(place);
  let served = 0;
  const isThere = () => cells.load(cellBase) > served;
  return {
    wait: (isDue = () => false) =>
      cells.waitUntil(
        () => `request ${served} of the device`,
        () => isThere() || isDue(),
        peer,
      ),
    next() {
      if (!isThere()) return undefined;
      const slot = slotOf(served);
      return {
        entries: Array.from({ length: slot.entries }, (_, i) => slot.read(i)),
        shorten: (entry, count) => slot.shorten(entry, count),
      };
    },
    done(hits) {
      slotOf(served).hits = hits;
      served++;
      cells.store(cellBase + 1, served, [peer]);
    },
  };
}
