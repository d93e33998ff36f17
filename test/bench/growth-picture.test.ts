// The pictures of docs/performance.md equal the output of their program for the rows beside them.

import { readFileSync } from "node:fs";
import test from "ava";
import { charts } from "../../bench/growth/pictures.ts";
import type { BenchRow } from "../../bench/row.ts";
import { rowsOfJson } from "../../cli/views/svg.ts";

for (const { rows, picture, draw } of charts) {
  test(`${picture} is drawn from the rows beside it`, (t) => {
    const all = rowsOfJson<BenchRow>(readFileSync(rows, "utf8"));
    t.true(all.length > 10, `${all.length} rows`);
    const drawn = draw(all);
    t.is(readFileSync(picture, "utf8"), drawn);
    t.notRegex(drawn, /NaN|undefined|Infinity/);
  });
}
