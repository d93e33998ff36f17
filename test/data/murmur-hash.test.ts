import test from "ava";
import { murmurHash3 } from "../../src/data/murmur-hash.ts";

// Known answers of MurmurHash3_x86_32, as published with its ports;
// characters are bytes.
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
