// Hashes of ids, against published test vectors. The row of a hashed id is the hash of its
// decimals, and that of a plain id is the id: with the addon and without.

import test from "ava";
import {
  hasherOf,
  idHasher,
  plainRows,
  plainRowsOf,
  textWay,
} from "../../../src/data/columnar/bag-reader.ts";
import { mix64Modulo, murmurHash3 } from "../../../src/data/murmur-hash.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { halvesOf, mix64 } from "../../helpers/batches/wide-ids.ts";
import { fc } from "../../helpers/properties.ts";

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
  const unsigned = { ...column, ids: BigInt64Array.of(-1n, 3n), isUnsigned: true }; // 2^64 - 1, 3
  const offsets = Int32Array.of(0, 2);
  for (const find of [plainRows, plainRowsOf]) {
    t.is(find({ rows: 50, offset: -1 })({ ...unsigned, offsets })[0], textWay);
    t.deepEqual([...find({ rows: 50, offset: 3 })({ ...unsigned, offsets })], [textWay, 0]);
  }
});

// Known answers of MurmurHash3_x86_32, as published with its ports; each character is one byte.
const vectors: readonly [string, number, number][] = [
  ["", 0, 0],
  ["", 1, 0x514e28b7],
  ["", 0xffffffff, 0x81f16f39],
  ["\xff\xff\xff\xff", 0, 0x76293b50],
  ["\x21\x43\x65\x87", 0, 0xf55b516b],
  ["\x21\x43\x65", 0, 0x7e4a8634],
  ["\x21\x43", 0, 0xa0f7b07a],
  ["\x21", 0, 0x72661cf4],
  ["aaaa", 0x9747b28c, 0x5a97808a],
  ["abc", 0x9747b28c, 0xc84a62dd],
  ["test", 0, 0xba6bd213],
  ["Hello, world!", 0x9747b28c, 0x24884cba],
  [Buffer.from("ππππππππ").toString("latin1"), 0x9747b28c, 0xd58063c1],
  ["The quick brown fox jumps over the lazy dog", 0x9747b28c, 0x2fa826cd],
];

test("murmurHash3 gives the published hashes of known texts", (t) => {
  for (const [text, seed, hash] of vectors) {
    t.is(murmurHash3(text, seed), hash, JSON.stringify(text));
  }
});

/** Known answers of MurmurHash3's fmix64, as published with its ports. */
const mixed: readonly [bigint, bigint][] = [
  [0n, 0n],
  [1n, 0xb456bcfc34c2cb2cn],
  [0xcbf29ce484222325n, 0xefd01f60ba992926n],
  [0x1234567890abcdefn, 0x0cae996fee6bd396n],
  [0xdeadbeefcafebaben, 0x7082995008f0c48cn],
  [0x7fffffffffffffffn, 0xabb93df0a930edean],
  [0x8000000000000000n, 0x8f780810af31a493n],
  [0xffffffffffffffffn, 0x64b5720b4b825f21n],
];

test("mix64Modulo gives the published hashes modulo any count", (t) => {
  for (const [number, hash] of mixed) {
    const [low, high] = halvesOf(number);
    for (const modulus of [1, 2, 3, 1000, 65_536, 1_000_003, 2 ** 30, 2 ** 31 - 1]) {
      const expected = Number(hash % BigInt(modulus));
      t.is(mix64Modulo(low, high, modulus), expected, `${number} mod ${modulus}`);
    }
  }
});

test("mix64Modulo equals the remainder of any id's hash by any number of rows", (t) => {
  const number = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
  const modulus = fc.oneof(
    fc.integer({ min: 1, max: 2 ** 31 - 1 }),
    fc.integer({ min: 1, max: 99 }),
  );
  fc.assert(
    fc.property(number, modulus, (id, rows) => {
      const [low, high] = halvesOf(id);
      t.is(mix64Modulo(low, high, rows), Number(mix64(id) % BigInt(rows)));
    }),
    { numRuns: 5000 },
  );
});
