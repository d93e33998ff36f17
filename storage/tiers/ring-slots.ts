// The slots of the ring between a device and its tier thread (ring.ts): their memory.
//
//   a slot, int32:  [entries, hits in host memory, then for each entry: kind, shard, capacity in
//                    rows, offset of its arrays, rows]
//   arrays of an entry, each aligned to 8 bytes:
//     down   rows, records                        the device writes both
//     up     rows, found, records                 the tier writes the last two
//     scan   rows, records                        from rows[0] on; the tier writes both
//     kept   rows                                 for each shard 1 or 0; the tier writes it
//     drop   rows                                 the device writes them

import assert from "node:assert/strict";
import { recordRowsMax } from "../../src/embedding/rows/records-in-memory.ts";
import type { Cells } from "../../src/exchange/cells.ts";

/** One cached shard of the device. */
export interface TierShard {
  /** Index of the shard among all shards of the job. */
  readonly shard: number;
  readonly recordBytes: number;
  readonly rows: number;
  /** Most rows that a usual batch moves in one direction. */
  readonly rowsMax: number;
}

export interface TierRingShape {
  readonly shards: readonly TierShard[];
  /** Most requests in flight, where each takes one slot. */
  readonly slots: number;
}

/** Most bytes of a slot: larger requests are split. Typed arrays have at most 2^32 elements. */
export const slotBytesMax = 2 ** 30;

const kinds = ["down", "up", "scan", "kept", "drop"] as const;

export type Kind = (typeof kinds)[number];

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

/** Bytes for a usual batch, which moves rows of all shards both ways, or for one entry. */
function slotBytes(shape: TierRingShape): number {
  const { shards } = shape;
  const batch = shards.reduce((sum, shard) => sum + 2 * entryBytes(shard, shard.rowsMax), 0);
  const alone = shards.map((shard) => entryBytes(shard, Math.max(shards.length, scanRows(shard))));
  return headerBytes(shape) + Math.max(Math.min(batch, slotBytesMax), ...alone);
}

/** Bytes of an entry: each of its three arrays may be padded. */
function entryBytes(shard: TierShard, rows: number): number {
  return padded(rows * rowBytes(shard)) + padding;
}

const padding = 24;

function rowBytes({ recordBytes }: TierShard): number {
  return 4 + 1 + recordBytes;
}

/** Most rows of one answer to a scan. */
export function scanRows({ rows }: Pick<TierShard, "rows">): number {
  return Math.min(rows, recordRowsMax);
}

export function tierRingBytes(shape: TierRingShape): number {
  return shape.slots * slotBytes(shape);
}

/** One end of a ring. */
export interface RingPlace {
  readonly shape: TierRingShape;
  readonly memory: ArrayBufferLike;
  readonly cells: Cells;
  readonly cellBase: number;
  /** The participant at the other end. */
  readonly peer: number;
}

/** One slot of the ring's memory. */
export class Slot {
  readonly #place: RingPlace;
  readonly #first: number;
  readonly #bytes: number;
  readonly #header: Int32Array;
  #end = 0;

  /** `bytes`: of a slot. */
  constructor(place: RingPlace, index: number, bytes: number) {
    this.#place = place;
    this.#first = index * bytes;
    this.#bytes = bytes;
    this.#header = new Int32Array(place.memory, this.#first, headerBytes(place.shape) / 4);
  }

  clear(): void {
    this.#header.fill(0, 0, headInts);
    this.#end = this.#header.byteLength;
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
    assert(this.#end <= this.#bytes, "a request has room for its rows");
    return made;
  }

  /** Most rows of a shard that a further entry has room for. */
  roomFor(at: number): number {
    const shard = this.#place.shape.shards[at];
    assert(shard !== undefined, "a request names a shard of the ring");
    return Math.floor((this.#bytes - this.#end - padding) / rowBytes(shard));
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
export function slotsOf(place: RingPlace): (request: number) => Slot {
  const bytes = slotBytes(place.shape);
  const slots = Array.from({ length: place.shape.slots }, (_, i) => new Slot(place, i, bytes));
  return (request) => {
    const slot = slots[request % slots.length];
    assert(slot !== undefined);
    return slot;
  };
}
