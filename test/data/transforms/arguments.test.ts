// Every argument of an op with a wrong value, and the error that names it.

import test from "ava";
import { InvalidOptionError } from "../../../src/errors/errors.ts";
import { run } from "./run-transforms.ts";

const right: Readonly<Record<string, object>> = {
  log: {},
  boxCox: { lambda1: 1 },
  logit: {},
  scale: { over: 2 },
  clamp: { min: 0, max: 1 },
  fill: { value: 0 },
  bucketize: { borders: [1] },
  onehot: { low: 0, high: 1, buckets: 2 },
  getLocalHour: {},
  sigridHash: { max: 10 },
  positiveModulus: { modulus: 10 },
  firstX: { x: 1 },
  enumerate: {},
  hashText: {},
  mapId: { vocabulary: "a.txt" },
  nGram: { n: 2, max: 10 },
  cartesian: { max: 10, inputs: ["x", "y"] },
};

/** Op, argument, wrong value, expected value, and value as reported. */
type Rule = readonly [op: string, argument: string, value: unknown, expected: string, got: string];

const pairOps = ["idListTransform", "hasOverlap", "overlapCount", "maxCount", "jaccard"];
const scoreOps = ["cosine", "scoreSum", "scoreMin", "scoreMax"];
const twoColumns = "a list of two columns";

const rules: readonly Rule[] = [
  ["log", "plus", "one", "a number", "`one` (string)"],
  ["log", "output", "", "a string of >= 1 characters", "`` (string)"],
  ["log", "input", 7, "the name of a column or of another transform's output", "`7` (number)"],
  ["log", "version", 2, "one of 1", "`2` (number)"],
  ["boxCox", "lambda1", undefined, "a number", "nothing"],
  ["boxCox", "lambda2", null, "a number", "`null`"],
  ["logit", "eps", 0.5, "a number < 0.5", "`0.5` (number)"],
  ["logit", "eps", 0, "a number > 0", "`0` (number)"],
  ["scale", "minus", true, "a number", "`true` (boolean)"],
  ["scale", "over", 0, "another number than 0", "`0` (number)"],
  ["clamp", "min", undefined, "a number", "nothing"],
  ["clamp", "max", -1, "at least `min`", "`-1` (number)"],
  ["fill", "value", 2 ** 60, `a number <= ${Number.MAX_SAFE_INTEGER}`, `\`${2 ** 60}\` (number)`],
  ["bucketize", "borders", [], "a list of >= 1 entries", "`[]` (list)"],
  ["bucketize", "borders", [2, 1], "borders that do not decrease", "`[2,1]` (list)"],
  ["bucketize", "borders", [1, 1, 1], "borders of which no three are equal", "`[1,1,1]` (list)"],
  ["onehot", "low", 1, "greater than `low`", "`1` (number)"],
  ["onehot", "high", 0, "greater than `low`", "`0` (number)"],
  ["onehot", "buckets", 0, "a number >= 1", "`0` (number)"],
  ["getLocalHour", "offsetSeconds", 90_000, "a number <= 86400", "`90000` (number)"],
  ["sigridHash", "max", 0, "a number >= 1", "`0` (number)"],
  ["sigridHash", "max", 2 ** 49, `a number <= ${2 ** 48}`, `\`${2 ** 49}\` (number)`],
  ["sigridHash", "salt", "x", "an integer of 64 bits", "`x` (string)"],
  [
    "sigridHash",
    "salt",
    "9223372036854775808",
    "an integer of 64 bits",
    "`9223372036854775808` (string)",
  ],
  ["positiveModulus", "modulus", 1.5, "an integer", "`1.5` (number)"],
  ["firstX", "x", 0, "a number >= 1", "`0` (number)"],
  ["enumerate", "output", undefined, "a string", "nothing"],
  ["hashText", "output", "a\u0007", "a name without control characters", "`a\\x07` (string)"],
  ["mapId", "vocabulary", undefined, "a string", "nothing"],
  ["mapId", "form", "text", 'one of "texts", "pairs"', "`text` (string)"],
  ["mapId", "unknown", 0.5, "an integer", "`0.5` (number)"],
  ["mapId", "sha256", "f", "64 hexadecimal digits", "`f` (string)"],
  ["nGram", "n", 65, "a number <= 64", "`65` (number)"],
  ["nGram", "max", undefined, "a number", "nothing"],
  ["cartesian", "pairsMax", 0, "a number >= 1", "`0` (number)"],
  ["cartesian", "inputs", ["x"], twoColumns, '`["x"]` (list)'],
  ["jaccard", "inputs", "x", "an array", "`x` (string)"],
  ...[...pairOps, ...scoreOps].map(
    (op): Rule => [op, "inputs", ["x"], twoColumns, '`["x"]` (list)'],
  ),
];

function messageOf(transform: object): string {
  try {
    run([transform], { x: [], y: [] });
  } catch (error) {
    if (error instanceof InvalidOptionError) return error.problems[0]?.message ?? "";
    throw error;
  }
  return "";
}

for (const [op, argument, value, expected, got] of rules) {
  test(`${op}: ${argument} = ${JSON.stringify(value)} is refused`, (t) => {
    const message = messageOf({ op, input: "x", output: "out", ...right[op], [argument]: value });
    t.regex(message, /^Expected `transforms\[0\]\.[a-zA-Z0-9]+` to be /);
    t.true(message.includes(` to be ${expected}`), message);
    t.true(message.includes(`, got ${got}`), message);
    const named = message.slice("Expected `transforms[0].".length, message.indexOf("` to be"));
    t.true(named === argument || (op === "onehot" && named === "high"), message);
  });
}

test("an unknown op is refused with the likely one", (t) => {
  t.regex(
    messageOf({ op: "bucketise", input: "x", output: "out", borders: [1] }),
    /^Expected `transforms\[0\]\.op` to be one of .*; did you mean `bucketize`\?$/,
  );
});

test("an unknown argument is refused with the likely one", (t) => {
  const wrong = { op: "sigridHash", input: "x", output: "out", max: 7, salts: 3 };
  const message = "Expected no option `transforms[0].salts`: did you mean `salt`?";
  t.is(messageOf(wrong), message);
});

test("sampling: a rate of 0, a negative seed and a name are refused", (t) => {
  t.regex(messageOf({ op: "sampling", rate: 0 }), /`transforms\[0\]\.rate` to be a number > 0/);
  t.regex(messageOf({ op: "sampling", rate: 1.5 }), /`transforms\[0\]\.rate` to be a number <= 1/);
  t.regex(messageOf({ op: "sampling", rate: 1, seed: -1 }), /\.seed` to be a number >= 0/);
  t.regex(
    messageOf({ op: "sampling", rate: 1, output: "x" }),
    /no option `transforms\[0\]\.output`/,
  );
});
