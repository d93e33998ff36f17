// 32-bit ids as rows: the tables' policies for ids beyond their rows.

import test from "ava";
import { mix32 } from "../../../src/data/murmur-hash.ts";
import { LocalRows } from "../../../src/embedding/lookup/ids-to-rows.ts";
import type { BagTable } from "../../../src/embedding/lookup/sample-rows.ts";
import { FrameCorruptError, IdOutOfRangeError } from "../../../src/errors/errors.ts";

const tablesThat = (ids: BagTable["ids"]): BagTable[] => [
  { name: "user", rows: 10, ids, idBits: 32 },
  { name: "item", rows: 5, ids, idBits: 32 },
];

/** A batch of two samples: users 1 and 2, and no user; items 4 and 0 are followed by `id`. */
function localWith(id: number) {
  return {
    samples: 2,
    lengths: Int32Array.of(2, 0, 1, 2),
    ids: Int32Array.of(1, 2, 4, 0, id),
  };
}

test("ids within the table are rows as they are, with the offsets of each feature", (t) => {
  const rows = new LocalRows().take(localWith(3), tablesThat("reject"), 0);
  t.deepEqual([...rows.rows], [1, 2, 4, 0, 3]);
  t.deepEqual([...rows.starts], [0, 2, 5]);
});

for (const id of [5, -1, 2 ** 31 - 1]) {
  test(`id ${id} outside its table is refused with the table and the sample of the batch`, (t) => {
    const take = (first: number) => () => {
      new LocalRows().take(localWith(id), tablesThat("reject"), first);
    };
    const where = "Expected ids of table `item` (feature 1) to lie in 0..4";
    const error = t.throws(take(0), { instanceOf: IdOutOfRangeError });
    t.true(error.message.startsWith(`${where}, got ${id} in sample 1 of the batch`));
    t.regex(t.throws(take(100)).message, /in sample 101 of the batch/);
  });
}

test("ids beyond the table are clamped or hashed as the table says, and counted", (t) => {
  const clamped = new LocalRows();
  t.deepEqual([...clamped.take(localWith(7), tablesThat("clamp"), 0).rows], [1, 2, 4, 0, 4]);
  t.deepEqual([...clamped.take(localWith(-3), tablesThat("clamp"), 0).rows], [1, 2, 4, 0, 0]);
  t.deepEqual([...clamped.repaired], [["item", 2]]);
  const hashed = new LocalRows();
  const { rows } = hashed.take(localWith(-3), tablesThat("hash"), 0);
  t.is(rows[4], mix32(-3) % 5);
});

test("a long sequence is truncated to its first or last ids, in their order", (t) => {
  const table = { name: "item", rows: 10, ids: "reject", idBits: 32 } as const;
  const local = { samples: 3, lengths: Int32Array.of(4, 0, 1), ids: Int32Array.of(5, 6, 7, 8, 9) };
  const take = (own: Partial<BagTable>) => {
    const { lengths, rows } = new LocalRows().take(local, [{ ...table, ...own }], 0);
    return { lengths: [...lengths], rows: [...rows] };
  };
  // Rows of position 0 (samples 0 and 2), then of position 1 (sample 0).
  const lengths = [1, 0, 1, 1, 0, 0];
  t.deepEqual(take({ positions: 2 }), { lengths, rows: [5, 9, 6] });
  t.deepEqual(take({ positions: 2, kept: "last" }), { lengths, rows: [7, 9, 8] });
});

test("the batch's ids stay unchanged, and memory is reused", (t) => {
  const memory = new LocalRows();
  const local = localWith(9);
  const first = memory.take(local, tablesThat("clamp"), 0);
  t.is(local.ids[4], 9);
  t.is(memory.take(local, tablesThat("clamp"), 0).rows.buffer, first.rows.buffer);
});

test("lengths that do not fit the ids are refused", (t) => {
  const local = localWith(1);
  for (const lengths of [Int32Array.of(2, 0, 1, 3), Int32Array.of(-1, 0, 1, 2)]) {
    t.throws(() => new LocalRows().take({ ...local, lengths }, tablesThat("clamp"), 0), {
      instanceOf: FrameCorruptError,
    });
  }
});

test("missing upper halves or weights are refused", (t) => {
  const [user, item] = tablesThat("hash");
  if (user === undefined || item === undefined) return t.fail();
  const take = (table: BagTable) => () => new LocalRows().take(localWith(1), [table, item], 0);
  t.throws(take({ ...user, idBits: 64 }), { message: /^upper halves for a wide feature/ });
  t.throws(take({ ...user, isWeighted: true }), { message: /^weights where a feature has them/ });
});
