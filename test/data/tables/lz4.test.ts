// LZ4 frames: the errors of damaged ones, and forms that pyarrow does not write.

import test from "ava";
import { CorruptFile } from "../../../src/data/tables/damage.ts";
import { unpackLz4Frame } from "../../../src/data/tables/lz4.ts";

const head = [0x04, 0x22, 0x4d, 0x18];
/**
 * Frame header: version 1, blocks of up to 64 KiB, and a header checksum that the reader ignores.
 */
const plain = [...head, 0x40, 0x40, 0];
/** A block: `abc`, a copy of six bytes from three back, and a final literal `d`. */
const block = [0x32, 97, 98, 99, 3, 0, 0x10, 100];
const ended = [0, 0, 0, 0];

function unpack(bytes: readonly number[], size: number): string {
  const out = new Uint8Array(size);
  unpackLz4Frame(out, Uint8Array.from(bytes));
  return Buffer.from(out).toString("latin1");
}

test("a copy may reach into the previous block, and overlap its own output", (t) => {
  t.is(unpack([...plain, 8, 0, 0, 0, ...block, ...ended], 10), "abcabcabcd");
  const copies = [0x02, 5, 0, 0x10, 101]; // A copy of six bytes from five back, and `e`.
  const two = [...plain, 8, 0, 0, 0, ...block, 5, 0, 0, 0, ...copies, ...ended];
  t.is(unpack(two, 17), "abcabcabcdcabcdce");
});

test("uncompressed blocks, content sizes and checksums are accepted", (t) => {
  const sized = [...head, 0x58, 0x40, 3, 0, 0, 0, 0, 0, 0, 0, 0];
  t.is(unpack([...sized, 3, 0, 0, 0x80, 97, 98, 99, 1, 2, 3, 4, ...ended], 3), "abc");
});

const broken: readonly [string, readonly number[], RegExp][] = [
  ["nothing", [], /a buffer's LZ4 frame has no head/],
  ["other bytes", [1, 2, 3, 4, 5, 6, 7, 8], /has no head/],
  ["another version", [...head, 0x80, 0x40, 0], /has the version 2/],
  ["a dictionary", [...head, 0x41, 0x40, 0], /has a dictionary/],
  ["no end", plain, /has no last block/],
  ["half a block", [...plain, 9, 0, 0, 0, ...block], /has an end within a block/],
  ["few bytes", [...plain, ...ended], /has 0 bytes, and not 10/],
  ["many bytes", [...plain, 11, 0, 0, 0x80, ...Array(11).fill(1)], /has more than 10 bytes/],
  ["many literals", [...plain, 2, 0, 0, 0, 0xb0, 1, ...ended], /an end within its literals/],
  ["a length without end", [...plain, 2, 0, 0, 0, 0xf0, 255, ...ended], /an end within a length/],
  ["half a copy", [...plain, 3, 0, 0, 0, 0x10, 97, 1, ...ended], /an end within a copy/],
  ["a copy of before", [...plain, 4, 0, 0, 0, 0x10, 97, 2, 0], /a copy from 2 bytes before 1/],
  ["a long copy", [...plain, 5, 0, 0, 0, 0x1f, 97, 1, 0, 99], /has more than 10 bytes/],
];

for (const [title, bytes, message] of broken) {
  test(`refused: ${title}`, (t) => {
    t.throws(() => unpack(bytes, 10), { instanceOf: CorruptFile, message });
  });
}
