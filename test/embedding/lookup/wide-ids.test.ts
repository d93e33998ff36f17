// 64-bit ids, and the tables' policies for them.

import test from "ava";
import { LocalRows } from "../../../src/embedding/lookup/ids-to-rows.ts";
import type { BagTable } from "../../../src/embedding/lookup/sample-rows.ts";
import { IdOutOfRangeError } from "../../../src/errors/errors.ts";
import { edges, halvesOf, rowOf } from "../../helpers/batches/wide-ids.ts";
import { fc } from "../../helpers/properties.ts";

/** A 64-bit table between two 32-bit tables. */
const tablesThat = (ids: BagTable["ids"]): BagTable[] => [
  { name: "day", rows: 7, ids, idBits: 32 },
  { name: "user", rows: 10, ids, idBits: 64 },
  { name: "item", rows: 5, ids, idBits: 32 },
];

/** Bags as [feature][sample][ids], on one device. */
type Nested = readonly (readonly (readonly bigint[])[])[];

function localOf(bags: Nested) {
  const halves = bags.flat(2).map(halvesOf);
  return {
    samples: bags[0]?.length ?? 0,
    lengths: Int32Array.from(bags.flatMap((feature) => feature.map((ids) => ids.length))),
    ids: Int32Array.from(halves, ([low]) => low),
    highs: Int32Array.from(halves, ([, high]) => high),
  };
}

for (const policy of ["clamp", "hash"] as const) {
  test(`64-bit ids become rows beside 32-bit ones: ${policy}`, (t) => {
    const memory = new LocalRows();
    const tables = tablesThat(policy);
    const narrow = (rows: number) => fc.array(fc.nat(rows - 1).map(BigInt), { maxLength: 3 });
    const id = fc.oneof(
      fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
      fc.nat(12).map(BigInt),
    );
    const sample = fc.tuple(narrow(7), fc.array(id, { maxLength: 4 }), narrow(5));
    fc.assert(
      fc.property(fc.array(sample, { maxLength: 4 }), (samples) => {
        const bags = [0, 1, 2].map((feature) => samples.map((own) => own[feature] ?? []));
        const expected = tables.flatMap(({ rows }, feature) =>
          (bags[feature] ?? []).flat().map((one) => rowOf(one, rows, policy)),
        );
        t.deepEqual([...memory.take(localOf(bags), tables, 0).rows], expected);
      }),
    );
  });
}

test("extreme 64-bit ids are clamped or hashed exactly, and counted", (t) => {
  const outside = edges.length - 1; // All but 0.
  for (const policy of ["clamp", "hash"] as const) {
    const memory = new LocalRows();
    const { rows } = memory.take(localOf([[[]], [edges], [[]]]), tablesThat(policy), 0);
    t.deepEqual(
      [...rows],
      edges.map((id) => rowOf(id, 10, policy)),
    );
    t.deepEqual([...memory.repaired], [["user", outside]]);
  }
});

test("a refusal names table, feature, sample and the complete 64-bit id", (t) => {
  for (const id of edges.slice(1)) {
    const bad = localOf([
      [[], []],
      [[9n], [3n, id]],
      [[], []],
    ]);
    const take = () => new LocalRows().take(bad, tablesThat("reject"), 101);
    const error = t.throws(take, { instanceOf: IdOutOfRangeError });
    const where = "Expected ids of table `user` (feature 1) to lie in 0..9";
    t.true(error.message.startsWith(`${where}, got ${id} in sample 102 of the batch`), `${id}`);
  }
});
