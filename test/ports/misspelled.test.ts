// A misspelled option is one error, reported once, with the likely option.

import test from "ava";
import { z } from "zod";
import { InvalidOptionError } from "../../src/errors/errors.ts";
import { checkOptions } from "../../src/ports/check-options.ts";

const schema = z.strictObject({
  batchSize: z.int().min(1),
  optimizer: z
    .discriminatedUnion("kind", [
      z.strictObject({ kind: z.literal("sgd"), momentum: z.number().default(0) }),
      z.strictObject({ kind: z.literal("adam"), beta1: z.number().default(0.9) }),
    ])
    .optional(),
  tables: z.array(z.strictObject({ name: z.string(), rows: z.int() })).default([]),
});

function problemsOf(value: unknown): string[] {
  try {
    checkOptions(schema, value);
  } catch (error) {
    if (error instanceof InvalidOptionError) return error.problems.map(({ message }) => message);
    throw error;
  }
  return [];
}

test("a misspelled required option is reported once", (t) => {
  t.deepEqual(problemsOf({ batchsize: 7 }), [
    "Expected no option `batchsize`: did you mean `batchSize`?",
  ]);
  t.deepEqual(problemsOf({ batchSize: 7, tables: [{ name: "a", row: 3 }] }), [
    "Expected no option `tables[0].row`: did you mean `rows`?",
  ]);
});

test("a missing option and an unrelated wrong one are two errors", (t) => {
  t.deepEqual(problemsOf({ colour: "red" }), [
    "Expected `batchSize` to be a number, got nothing",
    "Expected no option `colour`: there is none of that name; the options here are `batchSize`, " +
      "`optimizer`, `tables`",
  ]);
  const both = problemsOf({ batchSize: 0, batchsize: 7 });
  t.deepEqual(both, [
    "Expected `batchSize` to be a number >= 1, got `0` (number)",
    "Expected no option `batchsize`: did you mean `batchSize`?",
  ]);
});

test("only options of the section's kind are proposed", (t) => {
  t.deepEqual(problemsOf({ batchSize: 7, optimizer: { kind: "sgd", beta: 0.9 } }), [
    "Expected no option `optimizer.beta`: there is none of that name; the options here are " +
      "`kind`, `momentum`",
  ]);
  t.deepEqual(problemsOf({ batchSize: 7, optimizer: { kind: "adam", beta: 0.9 } }), [
    "Expected no option `optimizer.beta`: did you mean `beta1`?",
  ]);
});

test("a misspelled value is reported with the likely value", (t) => {
  t.deepEqual(problemsOf({ batchSize: 7, optimizer: { kind: "adm" } }), [
    'Expected `optimizer.kind` to be one of "sgd", "adam", got `adm` (string); did you mean `adam`?',
  ]);
});
