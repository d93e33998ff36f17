// The transforms of whole columns give the same bits with the addon and without.

import test from "ava";
import {
  hashArguments,
  referenceColumns,
  wholeColumns,
} from "../../../src/data/transforms/whole-columns.ts";
import { RandomStream } from "../../../src/ports/random.ts";

const columns = wholeColumns();
const salts = ["0", "1", "-1", "9223372036854775807", "-9223372036854775808", "81985529216486895"];
const maxima = [1, 2, 1000, 500_000, 2 ** 31, 2 ** 32 + 1, 2 ** 36 + 1, 2 ** 48];

function someIds(seed: number, count: number): BigInt64Array {
  const random = new RandomStream(seed, 1);
  return BigInt64Array.from({ length: count }, () => {
    const bits = (BigInt(random.word()) << 32n) | BigInt(random.word());
    return BigInt.asIntN(64, bits) >> BigInt(random.below(64));
  });
}

test("sigridHash and nGram give the same bits for any id, salt and max", (t) => {
  const ids = someIds(1, 600);
  const offsets = Int32Array.from({ length: 201 }, (_, row) => 3 * row);
  for (const salt of salts) {
    for (const max of maxima) {
      const hash = hashArguments({ salt, max });
      const [one, other] = [new BigInt64Array(600), new BigInt64Array(600)];
      columns.sigridHash(one, ids, hash);
      referenceColumns.sigridHash(other, ids, hash);
      t.deepEqual(one, other, `${salt} ${max}`);
      for (const n of [1, 2, 3]) {
        const windows = 4 - n;
        const places = Int32Array.from({ length: 201 }, (_, row) => windows * row);
        const [few, same] = [new BigInt64Array(200 * windows), new BigInt64Array(200 * windows)];
        columns.nGram(few, places, ids, offsets, n, hash);
        referenceColumns.nGram(same, places, ids, offsets, n, hash);
        t.deepEqual(few, same, `${salt} ${max} ${n}`);
      }
    }
  }
});

test("bucketize gives the same bits for any number, repeated borders included", (t) => {
  const random = new RandomStream(2, 1);
  for (const length of [1, 2, 3, 8, 4095]) {
    const borders = Float64Array.from({ length }, () => random.below(length) / 2).sort();
    const odd = [Number.NaN, Infinity, -Infinity, -0, 0, 1e308];
    const drawn = Array.from({ length: 500 }, () => (random.below(2 * length + 4) - 2) / 4);
    const values = Float64Array.from([...odd, ...drawn]);
    const [one, other] = [values, values].map((all) => new BigInt64Array(all.length));
    if (one === undefined || other === undefined) return t.fail();
    columns.bucketize(one, values, borders);
    referenceColumns.bucketize(other, values, borders);
    t.deepEqual(one, other);
  }
});
