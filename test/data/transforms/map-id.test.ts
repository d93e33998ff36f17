// Vocabularies: the ids that mapId finds in them, and invalid vocabulary files.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { withHashes, withVocabularies } from "../../../src/data/transforms/vocabulary.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { startDirectory, writeText } from "../data-files.ts";
import { out } from "./run-transforms.ts";

function fileOf(t: ExecutionContext, text: string): string {
  return writeText(startDirectory(t), { name: "vocabulary.txt", text });
}

test("a text maps to the index of its line; unknown texts are dropped or get `unknown`", (t) => {
  // A byte order mark, as Windows editors write, is no part of the first text.
  const vocabulary = fileOf(t, "\ufeffred\r\ngreen\r\nblue\r\n");
  const x = [["blue", "pink", "red"], [], ["pink"]];
  t.deepEqual(out({ op: "mapId", vocabulary }, { x }), [[2n, 0n], [], []]);
  t.deepEqual(out({ op: "mapId", vocabulary, unknown: -1 }, { x }), [[2n, -1n, 0n], [], [-1n]]);
});

test("pairs map 64-bit ids to 64-bit ids", (t) => {
  const [low, high] = [-(2n ** 63n), 2n ** 63n - 1n];
  const vocabulary = fileOf(t, `${low}\t${high}\n-1,5\n7\t${low}\n${high}\t0\n`);
  const options = { op: "mapId", vocabulary, form: "pairs" };
  t.deepEqual(
    out(options, {
      x: [
        [low, -1n, 8n],
        [7n, high],
      ],
    }),
    [
      [high, 5n],
      [low, 0n],
    ],
  );
  t.deepEqual(out({ ...options, unknown: 2 ** 40 }, { x: [[8n]] }), [[2n ** 40n]]);
});

const faults: readonly (readonly [string, string, object, RegExp])[] = [
  ["an empty file", "", {}, /: it is empty$/],
  ["a line twice", "a\nb\na\n", {}, /: line 3 is the text of line 1 again$/],
  ["an empty line", "a\n\nb\n", {}, /: line 2 is empty$/],
  [
    "UTF-16",
    "a\0b\0",
    {},
    /: it is text in UTF-32, or in UTF-16 without a byte order mark: convert/,
  ],
  ["pairs that are none", "1 2\n", { form: "pairs" }, /: expected line 1 to be two integers of 64/],
  ["a pair of 65 bits", `1\t${2n ** 63n}\n`, { form: "pairs" }, /: expected line 1 to be two/],
  [
    "pairs out of order",
    "2\t1\n1\t1\n",
    { form: "pairs" },
    /: expected line 2 to have a greater id/,
  ],
  ["another file than the job's", "a\n", { sha256: "0".repeat(64) }, /: it is not the file of the/],
];

for (const [what, text, own, message] of faults) {
  test(`a vocabulary is refused: ${what}`, (t) => {
    const vocabulary = fileOf(t, text);
    const error = t.throws(() => out({ op: "mapId", vocabulary, ...own }, { x: [["a"]] }));
    t.like(error, { code: "INPUT_UNUSABLE" });
    t.regex(error.message, message);
    t.true(error.message.startsWith(`Cannot use the vocabulary ${vocabulary}: `));
  });
}

test("a vocabulary with the job's hash is accepted", (t) => {
  const sha256 = createHash("sha256").update("a\n").digest("hex");
  const options = { op: "mapId", vocabulary: fileOf(t, "a\n"), sha256 };
  t.deepEqual(out(options, { x: [["a"]] }), [[0n]]);
});

test("a missing vocabulary is refused", (t) => {
  const vocabulary = `${fileOf(t, "")}.none`;
  const error = t.throws(() => out({ op: "mapId", vocabulary }, { x: [["a"]] }));
  t.like(error, { code: "INPUT_UNUSABLE" });
});

test("a device, pipe or directory as a vocabulary is refused before it is read", async (t) => {
  const home = startDirectory(t);
  const pipe = join(home, "pipe");
  execFileSync("mkfifo", [pipe]);
  for (const vocabulary of ["/dev/zero", pipe, home]) {
    const transforms = [
      { op: "mapId", input: "x", output: "y", form: "texts", vocabulary },
    ] as never;
    const message = /^Cannot use the vocabulary .*: it is no regular file$/;
    t.throws(() => withVocabularies(transforms), { message }, vocabulary);
    await t.throwsAsync(withHashes(transforms), { message }, vocabulary);
    const { open } = realDisk;
    if (vocabulary !== home)
      t.throws(() => open(vocabulary, "read"), { message: /no regular file/ });
  }
  const file = fileOf(t, "red\n");
  const transforms = [
    { op: "mapId", input: "x", output: "y", form: "texts", vocabulary: file },
  ] as never;
  // The sha256sum of the four bytes.
  const sha256 = "6ace33171ce0acb6891e3cc311d75a97aa429d77c05cba600d49ed9652ed49de";
  t.like(await withHashes(transforms), [{ sha256 }]);
  t.like(withVocabularies(transforms), [{ sha256 }]);
});
