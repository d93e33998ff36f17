// Parquet files for tests of indexes, and the options of the data in them.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ExecutionContext } from "ava";
import { parquetWriteBuffer } from "hyparquet-writer";
import { dataOptions } from "../../src/data/options.ts";
import { checkOptions } from "../../src/ports/check-options.ts";
import { startDirectory } from "./data-files.ts";

export const tables = ["user", "told"].map((name) => ({ name, rows: 500 }));

/** Writes a file of `rows` rows in row groups of 70, which differ by `seed`. */
export function writeRows(path: string, seed: number, rows = 200): void {
  const at = Array.from({ length: rows }, (_, row) => row);
  const label = at.map((row) => (row * 7 + seed) % 2);
  const columnData = [
    { name: "label", data: label.map((one, row) => (row % 50 === 3 ? 5 : one)), type: "INT32" },
    {
      name: "price",
      data: at.map((row) => (row % 9 === 0 ? null : row / 7 + seed)),
      type: "DOUBLE",
    },
    { name: "user", data: at.map((row) => `u${(row * seed) % 37}`), type: "STRING" },
    {
      name: "told",
      data: label.map((one, row) => `${one === 1 ? "yes" : "no"}${row % 3}`),
      type: "STRING",
    },
    { name: "day", data: at.map((row) => seed * 1000 + row), type: "INT32" },
  ] as const;
  const bytes = parquetWriteBuffer({ columnData: [...columnData], rowGroupSize: 70 });
  writeFileSync(path, new Uint8Array(bytes));
}

/** A directory with `count` files. */
export function startFiles(t: ExecutionContext, count = 6) {
  const home = startDirectory(t);
  const paths = Array.from({ length: count }, (_, i) => join(home, `f${i}.parquet`));
  for (const [i, path] of paths.entries()) writeRows(path, i + 1);
  return { home, paths };
}

export function optionsOf(paths: readonly string[], cache: string, rest: object = {}) {
  const section = {
    ...{ kind: "parquet", paths, cache, batchSize: 32, rejectedMax: 0.5, streamed: true, ...rest },
    label: "label",
    dense: [{ column: "price", missing: "mean" }],
    categorical: ["user", "told"],
  };
  const data = checkOptions(dataOptions, section);
  if (data.kind !== "parquet") throw new Error("Parquet");
  return data;
}
