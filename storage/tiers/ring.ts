// The ring between a device and its tier thread: requests in shared memory, executed in order.
// The device writes a request into the next slot; the tier thread reads the slot and writes the
// answer beside the request. Two counters record the progress:
//
//   posted   requests that the device has posted
//   served   requests that the tier has executed
//
//   a slot, int32:  [entries, hits in host memory, then for each entry: kind, shard, capacity in
//                    rows, offset of its arrays, rows]
//   arrays of an entry, each aligned to 8 bytes:
//     down   rows, records                        the device writes both
//     up     rows, found, records                 the tier writes the last two
//     scan   rows, records                        from rows[0] on; the tier writes both
//     kept   rows                                 for each shard 1 or 0; the tier writes it
//     drop   rows                                 the device writes them
//
// Invariants
//   T1. A slot is reused only after its request was executed and its answer was released.
//   T2. Slots have room for the worst batch; pages that no request has touched cost no memory.

import assert from "node:assert/strict";
import type {
  BackingStore,
  FetchedRecords,
  MovingRecords,
} from "../../src/embedding/rows/backing-store.ts";
import { recordRowsMax } from "../../src/embedding/rows/records-in-memory.ts";
import type { Cells } from "../../src/exchange/cells.ts";

/** One cached shard of the device. */
export interface TierShard {
  /** Index of the shard among all shards of the job. */
  readonly shard: number;
  readonly recordBytes: number;
  readonly rows: number;
  /** Most rows that a batch moves in one direction. */
  readonly rowsMax: number;
}

export interface TierRingShape {
  readonly shards: readonly TierShard[];
  /** Most requests in flight. */
  readonly slots: number;
}

/** Cells of a ring: posted, served. */
export const tierRingCells = 2;

/** Requests that the device has posted and the tier has not executed. */
export function tierRequests(cells: Pick<Cells, "load">, cellBase: number): number {
  return (cells.load(cellBase) - cells.load(cellBase + 1)) | 0;
}

const kinds = ["down", "up", "scan", "kept", "drop"] as const;

type Kind = (typeof kinds)[number];

/** One entry of a request, as both sides see it. */
export interface TierEntry {
  readonly kind: Kind;
  /** Index in the shape's shards. */
  readonly at: number;
  readonly rows: Int32Array;
  /** For `up`: 1 where the row has a record. */
  readonly found: Uint8Array;
  readonly records: Uint8Array;
}

const headInts = 2;
const entryInts = 5;

function entriesMax({ shards }: TierRingShape): number {
  return 2 * shards.length + 1;
}

function headerBytes(shape: TierRingShape): number {
  return padded(4 * (headInts + entryInts * entriesMax(shape)));
}

function padded(bytes: number): number {
  return 8 * Math.ceil(bytes / 8);
}

/** Bytes for a batch, which moves rows of all shards both ways, or for a request of one entry. */
function slotBytes(shape: TierRingShape): number {
  const { shards } = shape;
  const batch = shards.reduce((sum, shard) => sum + 2 * entryBytes(shard, shard.rowsMax), 0);
  const alone = shards.map((shard) => entryBytes(shard, Math.max(shards.length, scanRows(shard))));
  return headerBytes(shape) + Math.max(batch, ...alone);
}

function entryBytes({ recordBytes }: TierShard, rows: number): number {
  return padded(4 * rows) + padded(rows) + padded(rows * recordBytes);
}

/** Most rows of one answer to a scan. */
function scanRows({ rows }: Pick<TierShard, "rows">): number {
  return Math.min(rows, recordRowsMax);
}

export function tierRingBytes(shape: TierRingShape): number {
  return shape.slots * slotBytes(shape);
}

interface RingPlace {
  readonly shape: TierRingShape;
  readonly memory: ArrayBufferLike;
  readonly cells: Cells;
  readonly cellBase: number;
  /** The participant at the other end. */
  readonly peer: number;
}

/** One slot of the ring's memory. */
class Slot {
  readonly #place: RingPlace;
  readonly #first: number;
  readonly #header: Int32Array;
  #end = 0;

  constructor(place: RingPlace, index: number) {
    this.#place = place;
    this.#first = index * slotBytes(place.shape);
    const ints = headerBytes(place.shape) / 4;
    this.#header = new Int32Array(place.memory, this.#first, ints);
  }

  clear(): void {
    this.#header.fill(0, 0, headInts);
    this.#end = headerBytes(this.#place.shape);
  }

  get entries(): number {
    return this.#header[0] ?? 0;
  }

  add(kind: Kind, at: number, count: number): TierEntry {
    const entry = this.entries;
    assert(entry < entriesMax(this.#place.shape), "a request has room for its entries");
    const words = [kinds.indexOf(kind), at, count, this.#end / 8, count];
    this.#header.set(words, headInts + entryInts * entry);
    this.#header[0] = entry + 1;
    const made = this.read(entry);
    this.#end = made.records.byteOffset - this.#first + padded(made.records.length);
    assert(this.#end <= slotBytes(this.#place.shape), "a request has room for its rows");
    return made;
  }

  read(entry: number): TierEntry {
    const { memory, shape } = this.#place;
    const start = headInts + entryInts * entry;
    const words = this.#header.subarray(start, start + entryInts);
    const [kind = 0, at = 0, count = 0, first = 0, used = 0] = words;
    const name = kinds[kind] ?? "down";
    const rowsAt = this.#first + 8 * first;
    const foundAt = rowsAt + padded(4 * count);
    const found = name === "up" ? count : 0;
    const recordsAt = foundAt + padded(found);
    return {
      kind: name,
      at,
      rows: new Int32Array(memory, rowsAt, used),
      found: new Uint8Array(memory, foundAt, found),
      records: new Uint8Array(memory, recordsAt, used * (shape.shards[at]?.recordBytes ?? 0)),
    };
  }

  /** Requested rows that were not read from the disk. */
  get hits(): number {
    return this.#header[1] ?? 0;
  }

  set hits(count: number) {
    this.#header[1] = count;
  }

  /** Sets the number of rows that a scan found. */
  shorten(entry: number, count: number): void {
    this.#header[headInts + entryInts * entry + 4] = count;
  }
}

/** Returns the function that finds the slot of a request by its number. */
function slotsOf(place: RingPlace): (request: number) => Slot {
  const slots = Array.from({ length: place.shape.slots }, (_, i) => new Slot(place, i));
  return (request) => {
    const slot = slots[request % slots.length];
    assert(slot !== undefined);
    return slot;
  };
}

/** The device's end. `onPost` runs after each posted request; inline tiers execute it there. */
export function createBackingStore(place: RingPlace, onPost: () => void = () => {}): BackingStore {
  const { shape, cells, cellBase, peer } = place;
  const [postedCell, servedCell] = [cellBase, cellBase + 1];
  const slotOf = slotsOf(place);
  const atOf = new Map(shape.shards.map(({ shard }, at) => [shard, at]));
  /** Requests whose answer is pending or not yet released, oldest first. */
  const pending: number[] = [];
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
  const open = async (): Promise<void> => {
    const before = posted - shape.slots;
    assert(
      before < 0 || pending[0] === undefined || pending[0] > before,
      "T1: a slot is reused only once its answer was released",
    );
    if (before >= 0) await served(before, "make room");
    slotOf(posted).clear();
  };
  const post = (): void => {
    const slot = slotOf(posted);
    if (slot.entries === 0) return;
    if (expectsAnswer(slot)) pending.push(posted);
    posted++;
    cells.store(postedCell, posted, [peer]);
    onPost();
  };
  /** Posts a request of one entry and returns its answer. */
  const query = async (kind: Kind, at: number, rows: number, what: string, first = 0) => {
    await open();
    slotOf(posted).add(kind, at, rows).rows[0] = first;
    post();
    const [answer] = await oldest(what);
    assert(answer !== undefined);
    return answer;
  };
  const oldest = async (what: string): Promise<TierEntry[]> => {
    const [request] = pending;
    assert(request !== undefined, "an answer is expected only while a request is pending");
    await served(request, what);
    const slot = slotOf(request);
    return Array.from({ length: slot.entries }, (_, i) => slot.read(i));
  };
  return {
    open,
    down: (shard, count): MovingRecords => slotOf(posted).add("down", placeOf(shard), count),
    drop(shard, rows) {
      slotOf(posted).add("drop", placeOf(shard), rows.length).rows.set(rows);
    },
    up(shard, rows) {
      slotOf(posted).add("up", placeOf(shard), rows.length).rows.set(rows);
    },
    post,
    counts,
    async answer(isOfBatch): Promise<readonly FetchedRecords[]> {
      const found = (await oldest("bring rows up")).filter(({ kind }) => kind === "up");
      if (isOfBatch !== undefined) {
        counts.requested += found.reduce((sum, { rows }) => sum + rows.length, 0);
        counts.hits += slotOf(pending[0] ?? 0).hits;
      }
      return found;
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
