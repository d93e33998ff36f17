// Text compressed by zstd, and UTF-16 text: read like the plain UTF-8 file.

import { join } from "node:path";
import { gzipSync } from "node:zlib";
import test, { type ExecutionContext } from "ava";
import { utf8Pieces } from "../../../src/data/text/file-bytes.ts";
import { readLines } from "../../../src/data/text/text-lines.ts";
import { readVocabulary } from "../../../src/data/transforms/vocabulary.ts";
import { InputUnusableError } from "../../../src/errors/errors.ts";
import { startDirectory, writeText } from "../data-files.ts";

const hex = (text: string) => Buffer.from(text, "hex");
/** Made by zstd 1.5: `printf 'label,city\n1,Köln\n0,Łódź\n' | zstd -19`, with a checksum. */
const small = hex(
  "28b52ffd241de900006c6162656c2c636974790a312c4bc3b66c6e0a302cc581c3b364c5ba0a9801e334",
);
/** `yes 'abc,1' | head -n 100000 | zstd -19 --no-check`: several blocks. */
const long = hex(
  "28b52ffd0068740000306162632c310a0100f7ffc94b11440000000100fdffc90b10440000000100fdff390002440000000100fdff390002450000000100bd27390002",
);

/** The lines of a file with these bytes, as UTF-8. */
async function linesOf(t: ExecutionContext, bytes: Buffer): Promise<string[]> {
  const path = writeText(startDirectory(t), { name: "a.csv", text: bytes });
  const found: string[] = [];
  for await (const { lines } of readLines(path, ",")) {
    found.push(...lines.map((line = "") => Buffer.from(line, "latin1").toString("utf8")));
  }
  return found;
}

test("text compressed by zstd is read, frame after frame", async (t) => {
  t.deepEqual(await linesOf(t, small), ["label,city", "1,Köln", "0,Łódź"]);
  const skipped = hex("502a4d18030000000a0a0a"); // A skippable frame (RFC 8878, 3.1.2).
  const lines = await linesOf(t, Buffer.concat([small, long, skipped, small]));
  t.is(lines.length, 100_006);
  t.true(lines.slice(3, -3).every((line) => line === "abc,1"));
  t.deepEqual(lines.slice(-3), lines.slice(0, 3));
});

test("zstd that is damaged, truncated or a bomb is refused, and a valid file is read", async (t) => {
  const damaged = Buffer.from(small);
  damaged[20] = (damaged[20] ?? 0) ^ 1;
  const block = hex("02001041"); // 128 KiB of the letter A, not the last block (RFC 8878, 3.1.1.2).
  const bomb = Buffer.concat([hex("28b52ffd0058"), ...new Array<Buffer>(600).fill(block)]);
  const files: [Buffer, RegExp][] = [
    [damaged, /a\.csv: its Zstandard is damaged \(error 22 of zstd\)$/],
    [small.subarray(0, -5), /it ends within a frame of Zstandard$/],
    [Buffer.concat([small, Buffer.from("text")]), /its Zstandard is damaged/],
    [hex("28b52ffd0090010000"), /it looks back more than 128 MiB: pack it without zstd's `--long`/],
    [bomb, /it says that its 2406 bytes unpack to \d+, more than the limit of 67108864/],
  ];
  for (const [bytes, message] of files) {
    await t.throwsAsync(linesOf(t, bytes), { instanceOf: InputUnusableError, message });
  }
  t.is((await linesOf(t, small)).length, 3);
});

test("UTF-16 with a byte order mark is read as UTF-8: both orders, compressed, cut anywhere", async (t) => {
  const text = `\uFEFFlabel,city\r\n1,Köln\n0,"Łódź\n😀"`;
  const little = Buffer.from(text, "utf16le");
  const big = Buffer.from(little).swap16();
  for (const bytes of [little, big, gzipSync(little)]) {
    t.deepEqual(await linesOf(t, bytes), ["label,city", "1,Köln", '0,"Łódź\n😀"']);
  }
  for (const bytes of [little, big]) {
    for (const length of [3, 4, 5]) {
      const pieces = async function* () {
        for (let at = 0; at < bytes.length; at += length) yield bytes.subarray(at, at + length);
      };
      const found: Buffer[] = [];
      for await (const piece of utf8Pieces(pieces())) found.push(piece);
      t.is(Buffer.concat(found).toString("utf8"), text);
    }
  }
  // A large file: it is read in pieces of 256 KiB.
  const many = Array.from({ length: 60_000 }, (_, i) => `${i},Łódź 😀`);
  t.deepEqual(await linesOf(t, Buffer.from(`\uFEFF${many.join("\n")}\n`, "utf16le")), many);
  const path = join(startDirectory(t), "words.txt");
  writeText(join(path, ".."), {
    name: "words.txt",
    text: Buffer.from("\uFEFFrot\nblau\n", "utf16le"),
  });
  const utf8 = writeText(startDirectory(t), { name: "words.txt", text: "rot\nblau\n" });
  const [wide, plain] = [path, utf8].map((vocabulary) =>
    readVocabulary({ vocabulary, form: "texts", sha256: undefined }),
  );
  t.deepEqual(wide, plain);
});
