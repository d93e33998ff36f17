// The published test vectors of TorchArrow's functions, and of the papers that describe them.

import test from "ava";
import { out, type Plain } from "./run-transforms.ts";

const ids = (lists: readonly (readonly number[])[]) => lists.map((list) => list.map(BigInt));
const single = (values: readonly number[]) => values.map((value) => [BigInt(value)]);
const lists = (x: readonly (readonly number[])[], op: object) =>
  out({ ...op, input: { column: "x", separator: "|" } }, { x: x as Plain[] });

test("SigridHash gives TorchArrow's published results", (t) => {
  const sixteen = Array.from({ length: 16 }, (_, i) => i + 1);
  t.deepEqual(
    out({ op: "sigridHash", salt: 0, max: 100 }, { x: sixteen }),
    single([60, 54, 54, 9, 4, 91, 11, 67, 79, 2, 25, 92, 98, 83, 66, 2]),
  );
  t.deepEqual(
    out({ op: "sigridHash", max: 100 }, { x: [1, 2, 3, 5, 8, 10, 11] }),
    single([60, 54, 54, 4, 67, 2, 25]),
  );
  t.deepEqual(out({ op: "sigridHash", max: 1 }, { x: [1, -5] }), single([0, 0]));
});

test("Bucketize gives TorchArrow's published results", (t) => {
  const bucketize = (x: readonly number[], borders: readonly number[]) =>
    out({ op: "bucketize", borders }, { x });
  const borders = [0, 2, 3, 5, 500, 1000];
  t.deepEqual(bucketize([1, 2, 3, 4, 5, 6], borders), single([1, 1, 2, 3, 3, 4]));
  t.deepEqual(bucketize([1.5, 2.5, 3.5, 4.5, 5.5, 6.5], borders), single([1, 2, 3, 3, 4, 4]));
  t.deepEqual(bucketize([1.5], [1, 2, 2, 3, 3]), single([1]));
  t.deepEqual(bucketize([1, 2, 3, 5, 8, 10, 11], [2, 5, 10]), single([0, 0, 1, 1, 2, 2, 3]));
  t.deepEqual(bucketize([Number.NaN], borders), single([0]));
  // A repeated border makes a bucket for the value that equals it.
  t.deepEqual(bucketize([1, 1.5, 2, 2.5, 3, 4], [1, 2, 2, 3, 3]), single([0, 1, 2, 3, 4, 5]));
});

test("Bucketize of lists gives TorchArrow's published results", (t) => {
  const op = { op: "bucketize", borders: [1, 10, 100] };
  t.deepEqual(
    lists(
      [
        [1.5, 2.5, 150],
        [10, 200],
      ],
      op,
    ),
    ids([
      [1, 1, 3],
      [1, 3],
    ]),
  );
  t.deepEqual(lists([[1, 2, 150], [10, 200], []], op), ids([[0, 1, 3], [1, 3], []]));
});

const inputs = [
  [1, 2, 3],
  [4, 5, 6],
  [7, 8, 9],
  [10, 10, 11, 12],
];
const matching = [
  [1, 2, 3],
  [0, 10],
  [7, 10, 10],
  [10, 10, 11, 13],
];
const score = (op: string, x: Plain[] = inputs, y: Plain[] = matching) => out({ op }, { x, y });

test("overlap counts give TorchArrow's published results", (t) => {
  t.deepEqual(score("hasOverlap"), [1, 0, 1, 1]);
  t.deepEqual(score("overlapCount"), [3, 0, 1, 3]);
  t.deepEqual(score("maxCount"), [3, 0, 1, 3]);
  t.deepEqual(score("jaccard"), [1, 0, 1 / 5, 3 / 5]);
  t.deepEqual(score("maxCount", [[1, 1, 2, 3]], [[1, 2, 3]]), [4]);
  t.deepEqual(score("jaccard", [[1, 1, 2, 3]], [[1, 2, 3]]), [0.75]);
});

test("overlap scores give TorchArrow's published results, with the ids as scores", (t) => {
  const weighted = (op: string) => {
    const reads = ["x", "y"].map((column) => ({ column, separator: "|", weightSeparator: ":" }));
    const weights = { x: inputs.flat(), y: matching.flat() };
    return out({ op, inputs: reads }, { x: inputs, y: matching }, weights);
  };
  t.deepEqual(weighted("scoreSum"), [6, 0, 7, 31]);
  t.deepEqual(weighted("scoreMin"), [1, 0, 7, 10]);
  t.deepEqual(weighted("scoreMax"), [3, 0, 7, 11]);
});
