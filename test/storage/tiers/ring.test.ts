// The ring between a device and its tier: requests that are larger than its slots, and more of them
// than it has slots, against a plain map of records.

import test from "ava";
import { createCarrier } from "../../../storage/tiers/carry-out.ts";
import { createMemoryRecords } from "../../../storage/tiers/records/memory-records.ts";
import { createBackingStore, createTierEnd, tierRingCells } from "../../../storage/tiers/ring.ts";
import { type TierRingShape, tierRingBytes } from "../../../storage/tiers/ring-slots.ts";
import { fc } from "../../helpers/properties.ts";

const recordBytes = 12;
const rows = 100;

/** Two shards whose usual batch moves two rows. A slot has room for more rows, for scans. */
const shape: TierRingShape = {
  shards: [7, 9].map((shard) => ({ shard, recordBytes, rows, rowsMax: 2 })),
  slots: 3,
};

/** The device's end of a ring; the tier executes requests only while the device waits. */
function startRing() {
  const words = new Int32Array(tierRingCells);
  const load = (cell: number) => words[cell] ?? 0;
  const store = (cell: number, value: number) => {
    words[cell] = value;
  };
  let waits = 0;
  const cells = {
    load,
    store,
    async waitUntil(wait: () => string, isTrue: () => boolean) {
      for (; !isTrue(); waits++) {
        const request = end.next();
        if (request === undefined) throw new Error(`nobody ends the wait for ${wait()}`);
        carry(request);
        end.done(1);
      }
    },
  };
  const memory = new ArrayBuffer(tierRingBytes(shape));
  const place = { shape, memory, cells, cellBase: 0, peer: 0 };
  const end = createTierEnd(place);
  const named = shape.shards.map(({ shard }) => ({ name: `${shard}`, rows, recordBytes }));
  const carry = createCarrier(createMemoryRecords({ shards: named }));
  return { backing: createBackingStore(place), waits: () => waits };
}

/** Requests: the rows of a shard that are written down to the tier, and those read up from it. */
const requests = fc.array(
  fc.record({
    down: fc.array(fc.integer({ min: 0, max: rows - 1 }), { maxLength: rows }),
    up: fc.uniqueArray(fc.integer({ min: 0, max: rows - 1 }), { minLength: 1, maxLength: rows }),
    shard: fc.constantFrom(7, 9),
  }),
  { minLength: 1, maxLength: 6 },
);

test("requests of any size, any number of them in flight, read what was written before", async (t) => {
  await fc.assert(
    fc.asyncProperty(requests, async (all) => {
      const { backing } = startRing();
      const known = new Map<string, number>();
      const expected: { readonly found: number[]; readonly values: number[] }[] = [];
      let value = 0;
      for (const { down, up, shard } of all) {
        await backing.open();
        const own = [...new Set(down)];
        value++;
        for (const row of own) known.set(`${shard}:${row}`, value);
        await backing.down(shard, own.length, (piece, first) => {
          piece.rows.set(own.slice(first, first + piece.rows.length));
          piece.records.fill(value);
        });
        await backing.up(shard, Int32Array.from(up));
        backing.post();
        const values = up.map((row) => known.get(`${shard}:${row}`) ?? 0);
        expected.push({ values, found: values.map((one) => Number(one > 0)) });
      }
      for (const { found, values } of expected) {
        const [answer] = await backing.answer("isOfBatch");
        t.deepEqual([...(answer?.found ?? [])], found);
        for (const [i, one] of values.entries()) {
          const bytes = answer?.records.subarray(i * recordBytes, (i + 1) * recordBytes) ?? [];
          if (one > 0)
            t.true(
              [...bytes].every((byte) => byte === one),
              `row ${i}: ${bytes}`,
            );
        }
        backing.close();
      }
      t.is(backing.counts.requested, expected.flatMap(({ found }) => found).length);
    }),
  );
});

test("a request with more pieces than the ring has slots does not wait for itself", async (t) => {
  const { backing, waits } = startRing();
  const all = Int32Array.from({ length: rows }, (_, row) => row);
  for (let request = 0; request < 4; request++) {
    await backing.open();
    await backing.up(7, all);
    await backing.up(9, all.toReversed());
    backing.post();
  }
  for (let request = 0; request < 4; request++) {
    const answer = await backing.answer("isOfBatch");
    t.deepEqual(
      answer.map(({ found }) => found.length),
      [rows, rows],
    );
    backing.close();
  }
  t.is(backing.counts.hits, waits(), "hits of all pieces are counted");
});
