// The row of a hashed id is the hash of its decimals, and that of a plain id is the id: with the
// addon and without.

import test from "ava";
import {
  hasherOf,
  idHasher,
  plainRows,
  plainRowsOf,
  textWay,
} from "../../../src/data/columnar/bag-reader.ts";
import { murmurHash3 } from "../../../src/data/murmur-hash.ts";
import { RandomStream } from "../../../src/ports/random.ts";

test("ids of all lengths, signed and unsigned, have the hash of their decimals", (t) => {
  const random = new RandomStream(3, 1);
  const word = () => BigInt(random.word());
  const drawn = Array.from({ length: 5000 }, () => {
    return ((word() << 32n) | word()) >> BigInt(random.below(64));
  });
  const ends = [0n, -1n, 9n, 10n, 99n, 100n, 2n ** 63n - 1n, -(2n ** 63n)];
  // Repeats ids, as cached hashes must be the same, and negates each.
  const ids = BigInt64Array.from([...ends, ...drawn, ...drawn.map((id) => -id), ...drawn]);
  const offsets = Int32Array.of(0, ids.length);
  for (const table of [
    { seed: 0, rows: 2 },
    { seed: 25, rows: 10_000 },
    { seed: 3, rows: 2 ** 31 - 1 },
  ]) {
    const hashers = [idHasher(table), hasherOf(table)];
    for (const isUnsigned of [false, true, false]) {
      const wanted = Int32Array.from(ids, (id) => {
        const text = String(isUnsigned ? BigInt.asUintN(64, id) : id);
        return 1 + (murmurHash3(text, table.seed) % (table.rows - 1));
      });
      for (const hash of hashers) {
        t.true(
          Buffer.compare(
            bytesOf(hash({ form: "ids", offsets, ids, isUnsigned })),
            bytesOf(wanted),
          ) === 0,
        );
      }
    }
  }
});

function bytesOf({ buffer, byteOffset, byteLength }: Int32Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

test("entries after the last row are ignored", (t) => {
  const column = { form: "ids" as const, ids: BigInt64Array.of(5n, 6n, 7n) };
  const offsets = Int32Array.of(0, 1, 2);
  const table = { seed: 1, rows: 50 };
  const rows = [5, 6].map((id) => 1 + (murmurHash3(String(id), 1) % 49));
  for (const hash of [idHasher(table), hasherOf(table)]) {
    t.deepEqual([...hash({ ...column, offsets })], rows);
  }
});

test("plain ids become rows of their table, or take the slow path of text", (t) => {
  const ids = BigInt64Array.of(
    0n,
    4n,
    5n,
    9n,
    54n,
    55n,
    -1n,
    2n ** 31n,
    -(2n ** 31n),
    2n ** 62n,
    7n,
  );
  const column = { form: "ids" as const, ids, offsets: Int32Array.of(0, ids.length - 1) };
  for (const [offset, rows] of [
    [0, 50],
    [5, 50],
    [-(2 ** 31), 2 ** 31 - 1],
    [2 ** 40, 50],
  ] as const) {
    const wanted = [...ids.subarray(0, -1)].map((id) => {
      const row = Number(id) - offset;
      return BigInt.asIntN(32, id) === id && row >= 0 && row < rows ? row : textWay;
    });
    const table = { rows, offset };
    t.deepEqual([[...plainRows(table)(column)], [...plainRowsOf(table)(column)]], [wanted, wanted]);
  }
});
