// The picture of packages/ingest/docs/recd.md equals the output of its program for the rows beside
// it.

import { readFileSync } from "node:fs";
import test from "ava";
import { drawSavings, files } from "../../bench/dedup/picture.ts";
import type { BenchRow } from "../../bench/row.ts";
import { rowsOfJson } from "../../cli/views/svg.ts";

test("the picture of RecD's savings is drawn from the rows beside it", (t) => {
  const rows = rowsOfJson<BenchRow>(readFileSync(files.rows, "utf8"));
  t.true(rows.some(({ name }) => name === "dedup.train.attention.16.all"));
  t.is(readFileSync(files.picture, "utf8"), drawSavings(rows));
});
