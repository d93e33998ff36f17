// Ids of 64 bits in frames, and what the tables' policies make of them.

import test from "ava";
import fc from "fast-check";
import {
  BagMemory,
  type BagTable,
  bagWords,
  featureStarts,
  idFrameBytes,
  writeIdFrame,
} from "../../src/embedding/bags.ts";
import { FrameCorruptError, IdOutOfRangeError } from "../../src/errors.ts";
import { edges, halvesOf, rowOf } from "../helpers/wide-ids.ts";

/** A wide feature between two that are not. */
const tablesThat = (ids: BagTable["ids"]): BagTable[] => [
  { name: "day", rows: 7, ids, idBits: 32, feature: 0 },
  { name: "user", rows: 10, ids, idBits: 64, feature: 1 },
  { name: "item", rows: 5, ids, idBits: 32, feature: 2 },
];

/** Bags as [feature][sample][ids], on one device. */
type Nested = readonly (readonly (readonly bigint[])[])[];

function frameOf(bags: Nested, tables: readonly BagTable[]) {
  const samples = bags[0]?.length ?? 0;
  const halves = bags.flat(2).map(halvesOf);
  const local = {
    samples,
    lengths: Int32Array.from(bags.flatMap((feature) => feature.map((ids) => ids.length))),
    ids: Int32Array.from(halves, ([low]) => low),
    highs: Int32Array.from(halves, ([, high]) => high),
  };
  const wordsMax = tables.map((table) => {
    const longest = Math.max(0, ...(bags[table.feature] ?? []).map((bag) => bag.length));
    return bagWords(longest, table);
  });
  const ints = new Int32Array(idFrameBytes(samples, wordsMax) / 4);
  writeIdFrame(ints, local, tables, featureStarts(local, bags.length), 17);
  return { ints, samples };
}

for (const policy of ["clamp", "hash"] as const) {
  test(`ids of 64 bits become rows beside those of 32, from any devices: ${policy}`, (t) => {
    const memory = new BagMemory();
    const tables = tablesThat(policy);
    const narrow = (rows: number) => fc.array(fc.nat(rows - 1).map(BigInt), { maxLength: 3 });
    const id = fc.oneof(
      fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
      fc.nat(12).map(BigInt),
    );
    const sample = fc.tuple(narrow(7), fc.array(id, { maxLength: 4 }), narrow(5));
    const devices = fc.array(fc.array(sample, { maxLength: 4 }), { minLength: 1, maxLength: 3 });
    fc.assert(
      fc.property(devices, (all) => {
        const perFeature = (samples: (typeof all)[number]) =>
          [0, 1, 2].map((feature) => samples.map((bags) => bags[feature] ?? []));
        const frames = all.map((samples) => frameOf(perFeature(samples), tables));
        const bags = memory.gather(frames, tables);
        const flat = all.flat();
        const expected = tables.flatMap(({ rows }, feature) =>
          flat.map((own) => (own[feature] ?? []).map((one) => rowOf(one, rows, policy))),
        );
        const actual = expected.map((_, i) => [
          ...bags.ids.subarray(bags.offsets[i], bags.offsets[i + 1]),
        ]);
        t.deepEqual(actual, expected);
      }),
    );
  });
}

test("edges of 64 bits are clamped or hashed whole, and counted", (t) => {
  const outside = edges.length - 1; // All but 0.
  for (const policy of ["clamp", "hash"] as const) {
    const tables = tablesThat(policy);
    const memory = new BagMemory();
    const { ids } = memory.gather([frameOf([[[]], [edges], [[]]], tables)], tables);
    t.deepEqual(
      [...ids],
      edges.map((id) => rowOf(id, 10, policy)),
    );
    t.deepEqual([...memory.repaired], [["user", outside]]);
  }
});

test("a refusal names table, feature, sample and the whole id of 64 bits", (t) => {
  const tables = tablesThat("reject");
  const good = frameOf(
    [
      [[], []],
      [[9n], []],
      [[], []],
    ],
    tables,
  );
  for (const id of edges.slice(1)) {
    const bad = frameOf([[[]], [[3n, id]], [[]]], tables);
    const gather = () => new BagMemory().gather([good, bad], tables, 100);
    const error = t.throws(gather, { instanceOf: IdOutOfRangeError });
    const where = "Expected ids of table `user` (feature 1) to lie in 0..9";
    t.true(error.message.startsWith(`${where}, got ${id} in sample 102 of the batch`), `${id}`);
  }
});

test("a frame that ends before the upper halves is refused", (t) => {
  const tables = tablesThat("hash").slice(1, 2);
  const { ints, samples } = frameOf([[[]], [[1n, 2n, 3n]], [[]]], tables);
  const cut = { ints: ints.subarray(0, ints.length - 1), samples };
  t.notThrows(() => new BagMemory().gather([{ ints, samples }], tables));
  t.throws(() => new BagMemory().gather([cut], tables), { instanceOf: FrameCorruptError });
});
