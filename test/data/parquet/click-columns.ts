// The job columns of the click files that pyarrow and Python wrote: the same rows in each format.

import { join } from "node:path";
import { dataOptions, type ResolvedDataOptions } from "../../../src/data/options.ts";
import type { KeyColumn } from "../../../src/data/split-keys.ts";
import { checkOptions } from "../../../src/ports/check-options.ts";

/** Options common to all formats. */
const all = {
  batchSize: 32,
  rejectedMax: 0.5,
  labelAsFeature: true,
  label: ["label", "bought"],
  weight: "weight",
  group: "user",
  dense: [
    "age",
    { column: "price", log: true, missing: "mean" },
    { column: "ratio", missing: "indicator" },
    { column: "shop", missing: 0 },
  ],
};

const plain = [
  "item",
  "colour",
  { column: "shop", ids: "integer", offset: 100 },
  { column: "session", ids: "integer" },
  "digest",
  { column: "user", missing: "reject" },
  { column: "mixed", separator: "|" },
  { column: "bought", table: "again" }, // Also a label: true and false as texts.
];

const split = { separator: "|" };

const ofText = [
  { column: "tags", ...split },
  { column: "words", ...split },
  { column: "scored", weightSeparator: ":", ...split },
];

const ofLists = [
  { column: "tags", list: "plain" },
  { column: "words", list: "plain" },
  { column: "scored", list: "weighted" },
];

/** The data section for the click file with this ending. */
export function clicksAs(
  ending: "csv" | "parquet" | "arrow" | "arrows" | "jsonl",
  options: object,
): ResolvedDataOptions {
  const kind = ending === "arrows" ? "arrow" : ending;
  const paths = [join("test/fixtures", kind === "arrow" ? kind : "parquet", `clicks.${ending}`)];
  const categorical = [...plain, ...(kind === "csv" ? ofText : ofLists)];
  return checkOptions(dataOptions, { kind, paths, ...all, categorical, ...options }, "data");
}

const names = ["item", "colour", "shop", "session", "digest", "user", "mixed", "again"];
/** The tables of these columns. */
export const clickTables = [...names, "tags", "words", "scored"].map((name) => ({
  name,
  rows: name === "shop" ? 30 : 1000,
  ...(name === "session" ? { idBits: 64 as const } : {}),
}));

/** Columns to split by; undefined: none. */
export const clickKeys: Readonly<Record<string, KeyColumn | undefined>> = {
  none: undefined,
  "a time": { kind: "time", column: "when" },
  "a number": { kind: "time", column: "user" },
  "the hash of an integer": { kind: "hash", column: "item", salt: 3 },
  "the hash of a text": { kind: "hash", column: "colour", salt: 4 },
};
