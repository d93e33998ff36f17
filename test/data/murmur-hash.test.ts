// Hashes of ids, against published test vectors.

import test from "ava";
import { mix64Modulo, murmurHash3 } from "../../src/data/murmur-hash.ts";
import { halvesOf, mix64 } from "../helpers/batches/wide-ids.ts";
import { fc } from "../helpers/properties.ts";

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
