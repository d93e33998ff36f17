// The conformance suite of the port RecordStore, for every implementation.

import { isDeepStrictEqual } from "node:util";
import type { ExecutionContext, TestFn } from "ava";
import type { RecordShard, RecordStore } from "../../storage/tiers/records/record-store.ts";
import { fc } from "../helpers/properties.ts";
import { rounds } from "../helpers/thinned.ts";

/**
 * A record store under test. `open` opens a store of some shards in the subject's own directory;
 * opening again finds the synced records.
 */
export interface RecordsUnderTest {
  readonly open: (shards: readonly RecordShard[]) => Promise<RecordStore>;
  readonly close: () => void;
}

export const recordShards: readonly RecordShard[] = [
  { name: "user", rows: 100_000, recordBytes: 36 },
  { name: "item", rows: 2 ** 31 - 1, recordBytes: 260 },
  { name: "tag", rows: 40, recordBytes: 3 },
];

/** The bytes of a record, determined by row and version. */
export function recordOf(shard: RecordShard, row: number, version: number): Uint8Array {
  return Uint8Array.from({ length: shard.recordBytes }, (_, i) => 31 * row + 7 * version + i * i);
}

/** The concatenated records of some rows. */
export function recordsOf(shard: RecordShard, rows: Int32Array, version: number): Uint8Array {
  const records = new Uint8Array(rows.length * shard.recordBytes);
  for (const [i, row] of rows.entries()) {
    records.set(recordOf(shard, row, version), i * shard.recordBytes);
  }
  return records;
}

/** Reads rows of a store: the bytes of each row, undefined for a row without a record. */
export function readRows(
  store: RecordStore,
  at: number,
  shard: RecordShard,
  rows: Int32Array,
): (Uint8Array | undefined)[] {
  const records = new Uint8Array(rows.length * shard.recordBytes).fill(0xaa);
  const found = new Uint8Array(rows.length).fill(9);
  store.read(at, rows, records, found);
  return Array.from(rows, (_, i) => {
    const record = records.slice(i * shard.recordBytes, (i + 1) * shard.recordBytes);
    return found[i] === 1 ? record : undefined;
  });
}

/** All records of a shard, read by `scan`. */
export function scanned(
  store: RecordStore,
  at: number,
  shard: RecordShard,
  rowsMax: number,
): [number, Uint8Array][] {
  const all: [number, Uint8Array][] = [];
  for (const { rows, records } of store.scan(at, rowsMax)) {
    for (const [i, row] of rows.entries()) {
      all.push([row, records.slice(i * shard.recordBytes, (i + 1) * shard.recordBytes)]);
    }
  }
  return all;
}

/**
 * The number of elements in which two lists differ; an assertion on thousands of records would
 * print them all.
 */
function differences(actual: readonly unknown[], expected: readonly unknown[]): number {
  const length = Math.max(actual.length, expected.length);
  return Array.from({ length }, (_, i) => i).filter(
    (i) => !isDeepStrictEqual(actual[i], expected[i]),
  ).length;
}

/** Ascending, distinct rows of a shard; some are neighbours, some are far apart. */
const batchOf = (shard: RecordShard) =>
  fc
    .array(
      fc.oneof(
        fc.nat(Math.min(300, shard.rows - 1)),
        fc.nat(shard.rows - 1),
        fc.constant(shard.rows - 1),
      ),
      { maxLength: 80 },
    )
    .map((rows) => Int32Array.from(new Set(rows)).sort());

const plan = fc.array(
  fc.nat(recordShards.length - 1).chain((at) =>
    fc.record({
      at: fc.constant(at),
      act: fc.constantFrom("read", "write", "remove"),
      rows: batchOf(recordShards[at] ?? { name: "", rows: 1, recordBytes: 1 }),
    }),
  ),
  { minLength: 1, maxLength: 20 },
);

/** Registers the suite's tests for one implementation. */
export function testRecords(test: TestFn, name: string, start: () => RecordsUnderTest): void {
  const check = (
    title: string,
    body: (t: ExecutionContext, subject: RecordsUnderTest) => Promise<void>,
  ) =>
    test(`${name}: ${title}`, async (t) => {
      const subject = start();
      t.teardown(subject.close);
      await body(t, subject);
    });

  check("reads what was written last, and finds nothing else", async (t) => {
    await fc.assert(
      fc.asyncProperty(plan, async (calls) => {
        const subject = start();
        const store = await subject.open(recordShards);
        const expected = recordShards.map(() => new Map<number, Uint8Array>());
        for (const [version, { at, act, rows }] of calls.entries()) {
          const [shard, known] = [recordShards[at], expected[at]];
          if (shard === undefined || known === undefined) throw new Error("There is no such shard");
          if (act === "write") {
            store.write(at, rows, recordsOf(shard, rows, version));
            for (const row of rows) known.set(row, recordOf(shard, row, version));
          } else if (act === "remove") {
            store.remove(at, rows);
            for (const row of rows) known.delete(row);
          } else {
            const wanted = Array.from(rows, (row) => known.get(row));
            t.is(differences(readRows(store, at, shard, rows), wanted), 0);
          }
        }
        for (const [at, shard] of recordShards.entries()) {
          const known = [...(expected[at] ?? [])].sort(([a], [b]) => a - b);
          t.is(store.count(at), known.length);
          t.is(differences(scanned(store, at, shard, 7), known), 0);
        }
        await store.close();
        subject.close();
      }),
      { numRuns: rounds("random calls of a store of records", 5, 30) },
    );
  });

  check("refuses rows that do not ascend, and shards that are not there", async (t, subject) => {
    const store = await subject.open(recordShards);
    const records = new Uint8Array(1000);
    const found = new Uint8Array(10);
    for (const rows of [[2, 1], [1, 1], [-1], [100_000]]) {
      t.throws(() => store.read(0, Int32Array.from(rows), records, found), {
        instanceOf: RangeError,
      });
      t.throws(() => store.write(0, Int32Array.from(rows), records), { instanceOf: RangeError });
      t.throws(() => store.remove(0, Int32Array.from(rows)), { instanceOf: RangeError });
    }
    t.throws(() => store.write(0, Int32Array.of(1), new Uint8Array(35)), {
      instanceOf: RangeError,
    });
    t.throws(() => store.count(3), { instanceOf: RangeError });
    t.is(store.count(0), 0);
    await store.close();
  });

  check("counts what it did", async (t, subject) => {
    const store = await subject.open(recordShards);
    store.write(0, Int32Array.of(1, 2, 3), new Uint8Array(3 * 36));
    store.read(0, Int32Array.of(2, 3, 4), new Uint8Array(3 * 36), new Uint8Array(3));
    const { read, written, diskBytes } = store.stats();
    t.deepEqual([read, written], [2, 3]);
    t.true(diskBytes >= 0);
    await store.close();
  });
}

/** Registers further tests for one implementation that can be durable. */
export function testDurableRecords(
  test: TestFn,
  name: string,
  start: () => RecordsUnderTest,
): void {
  test(`${name}: synced records outlive the store, under their stamp`, async (t) => {
    const subject = start();
    t.teardown(subject.close);
    const [shard] = recordShards;
    if (shard === undefined) throw new Error("There is no shard");
    const rows = Int32Array.from({ length: 5000 }, (_, i) => 3 * i);
    const first = await subject.open(recordShards);
    t.is(first.stamp, undefined);
    first.write(0, rows, recordsOf(shard, rows, 1));
    first.write(0, Int32Array.of(1, 4), new Uint8Array(72));
    first.remove(0, Int32Array.of(1, 2, 4));
    first.sync("step 12");
    t.is(first.stamp, "step 12");
    await first.close();
    const second = await subject.open(recordShards);
    t.is(second.stamp, "step 12");
    t.is(second.count(0), 5000);
    const known = Array.from(rows, (row) => [row, recordOf(shard, row, 1)]);
    t.is(differences(scanned(second, 0, shard, 999), known), 0);
    await second.close();
  });

  for (const change of ["written", "removed"] as const) {
    test(`${name}: a record ${change} after a sync belongs to no cut, so reopening finds none`, async (t) => {
      const subject = start();
      t.teardown(subject.close);
      const first = await subject.open(recordShards);
      first.write(0, Int32Array.of(7), new Uint8Array(36));
      first.sync("step 12");
      if (change === "removed") first.remove(0, Int32Array.of(7));
      else first.write(0, Int32Array.of(8), new Uint8Array(36));
      t.is(first.stamp, undefined);
      await first.close();
      const second = await subject.open(recordShards);
      t.is(second.stamp, undefined);
      t.is(second.count(0), 0);
      t.deepEqual(
        readRows(second, 0, { name: "user", rows: 10, recordBytes: 36 }, Int32Array.of(7)),
        [undefined],
      );
      await second.close();
    });
  }

  test(`${name}: opening the records of other shards is refused`, async (t) => {
    const subject = start();
    t.teardown(subject.close);
    const first = await subject.open(recordShards);
    first.sync("step 0");
    await first.close();
    const others = recordShards.map((shard) => ({ ...shard, rows: shard.rows - 1 }));
    await t.throwsAsync(subject.open(others), { code: "INPUT_UNUSABLE" });
  });
}
