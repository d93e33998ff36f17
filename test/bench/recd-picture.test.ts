// The picture of docs/sessions/recd.md is what its program draws of the rows beside it.

import { readFileSync } from "node:fs";
import test from "ava";
import { drawSavings, files, rowsIn } from "../../bench/dedup/picture.ts";

test("the picture of what RecD saves is drawn from the rows beside it", (t) => {
  const rows = rowsIn(readFileSync(files.rows, "utf8"));
  t.true(rows.some(({ name }) => name === "dedup.train.attention.16.all"));
  t.is(readFileSync(files.picture, "utf8"), drawSavings(rows));
});
