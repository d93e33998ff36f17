// What the tiers do with a request: rows go down into the store, and come up out of it.

import type { RecordChunk, RecordStore } from "../records/record-store.ts";
import type { TierEntry, TierRequest } from "./ring.ts";

/** Carries out requests, the entries of each one after the other; it throws what the store does. */
export function createCarrier(store: RecordStore): (request: TierRequest) => void {
  /** The scan that is under way: its next chunk. Nothing goes down meanwhile. */
  let scanning: Iterator<RecordChunk> | undefined;
  const scan = ({ at, rows, records }: TierEntry): number => {
    if (rows[0] === 0) scanning = store.scan(at, rows.length)[Symbol.iterator]();
    const next = scanning?.next();
    if (next === undefined || next.done === true) return 0;
    rows.set(next.value.rows);
    records.set(next.value.records);
    return next.value.rows.length;
  };
  return (request) => {
    for (const [i, entry] of request.entries.entries()) {
      switch (entry.kind) {
        case "down":
          putDown(store, entry);
          break;
        case "up":
          bringUp(store, entry);
          break;
        case "scan":
          request.shorten(i, scan(entry));
          break;
        default:
          entry.kind satisfies never;
      }
    }
  };
}

function putDown(store: RecordStore, { at, rows, records }: TierEntry): void {
  const order = ascending(rows);
  if (order === undefined) return store.write(at, rows, records);
  store.write(at, take(rows, order), takeRecords(records, order));
}

function bringUp(store: RecordStore, { at, rows, found, records }: TierEntry): void {
  const order = ascending(rows);
  if (order === undefined) return store.read(at, rows, records, found);
  const [bytes, flags] = [new Uint8Array(records.length), new Uint8Array(found.length)];
  store.read(at, take(rows, order), bytes, flags);
  const size = order.length === 0 ? 0 : records.length / order.length;
  for (const [i, to] of order.entries()) {
    found[to] = flags[i] ?? 0;
    records.set(bytes.subarray(i * size, (i + 1) * size), to * size);
  }
}

/** Where the rows lie in ascending order; undefined where they are so already. */
function ascending(rows: Int32Array): Int32Array | undefined {
  if (rows.every((row, i) => i === 0 || (rows[i - 1] ?? 0) < row)) return undefined;
  // Row and place in one number: sorted without a call for every two of them.
  const places = 2 ** 21;
  const keys = Float64Array.from(rows, (row, i) => row * places + i).sort();
  return Int32Array.from(keys, (key) => key % places);
}

function take(rows: Int32Array, order: Int32Array): Int32Array {
  return order.map((i) => rows[i] ?? 0);
}

function takeRecords(records: Uint8Array, order: Int32Array): Uint8Array {
  const size = order.length === 0 ? 0 : records.length / order.length;
  const out = new Uint8Array(records.length);
  for (const [to, i] of order.entries()) {
    out.set(records.subarray(i * size, (i + 1) * size), to * size);
  }
  return out;
}
