// Executes a device's tier requests: moves rows down into the record store and back up.

import {
  ascending,
  elementsAt,
  type RecordChunk,
  type RecordStore,
} from "./records/record-store.ts";
import type { TierRequest } from "./ring.ts";
import type { TierEntry } from "./ring-slots.ts";

/**
 * Returns a function that executes a request, entry by entry. It throws the store's errors.
 * `isKept(at)`: whether the store already has the checkpoint's rows of shard `at`.
 */
export function createCarrier(
  store: RecordStore,
  isKept: (at: number) => boolean = () => false,
): (request: TierRequest) => void {
  /** The current scan: its next chunk. Nothing is written down during a scan. */
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
        case "drop":
          store.remove(entry.at, entry.rows);
          break;
        case "scan":
          request.shorten(i, scan(entry));
          break;
        case "kept":
          for (const at of entry.rows.keys()) entry.rows[at] = isKept(at) ? 1 : 0;
          break;
        default:
          entry.kind satisfies never;
      }
    }
  };
}

function putDown(store: RecordStore, { at, rows, records }: TierEntry): void {
  const order = ascending(rows);
  if (order === undefined) store.write(at, rows, records);
  else store.write(at, elementsAt(rows, order), takeRecords(records, order));
}

function bringUp(store: RecordStore, { at, rows, found, records }: TierEntry): void {
  const order = ascending(rows);
  if (order === undefined) {
    store.read(at, rows, records, found);
    return;
  }
  const [bytes, flags] = [new Uint8Array(records.length), new Uint8Array(found.length)];
  store.read(at, elementsAt(rows, order), bytes, flags);
  const size = order.length === 0 ? 0 : records.length / order.length;
  for (const [i, to] of order.entries()) {
    found[to] = flags[i] ?? 0;
    records.set(bytes.subarray(i * size, (i + 1) * size), to * size);
  }
}

function takeRecords(records: Uint8Array, order: Int32Array): Uint8Array {
  const size = order.length === 0 ? 0 : records.length / order.length;
  const out = new Uint8Array(records.length);
  for (const [to, i] of order.entries()) {
    out.set(records.subarray(i * size, (i + 1) * size), to * size);
  }
  return out;
}
