// The picture of docs/what-if.md shows the committed rows.

import { readFileSync } from "node:fs";
import test from "ava";
import { rowsOfJson } from "../../../../cli/views/svg.ts";
import { drawRates, files, type RateRow } from "../../bench/pictures.ts";

test("the picture of clusters shows the rows that were predicted", (t) => {
  const rows = rowsOfJson<RateRow>(readFileSync(files.rows, "utf8"));
  t.true(rows.length >= 10);
  t.is(readFileSync(files.rates, "utf8"), drawRates(rows));
});
