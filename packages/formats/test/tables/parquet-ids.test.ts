// The map from texts to rows, of Parquet and Arrow: the same as for these rows as CSV, and
// restricted to the wanted rows.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { arrow, csv, type DataOptions, dlrm, parquet } from "../../../../index.ts";
import { resolveJob } from "../../../../src/job/job.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { fixtures } from "../../../../test/data/parquet/parquet-files.ts";
import { tableIds } from "../../tables/table-ids.ts";

const common = { label: "bought", batchSize: 8 };
const one = { column: "digest", ids: "hash" } as const;

function jobOf(data: DataOptions) {
  const model = dlrm({ table: { rows: 200, dim: 4 }, top: [1] });
  return resolveJob({ model, data });
}

const files = {
  Arrow: arrow.bind(undefined, "test/fixtures/arrow/clicks.arrow"),
  Parquet: parquet.bind(undefined, join(fixtures, "clicks.parquet")),
};

for (const [name, file] of Object.entries(files)) {
  test(`texts and rows of ${name} equal those of the same rows as CSV`, async (t) => {
    const home = startDirectory(t);
    const tags = { column: "tags", separator: "|" };
    const text = jobOf(
      csv(join(fixtures, "clicks.csv"), { ...common, categorical: ["colour", one, tags] }),
    );
    const categorical = ["colour", one, { column: "tags", list: "plain" as const }];
    const of = (more: object) => jobOf(file({ ...common, categorical, ...more }));
    const [ours, theirs] = [join(home, "ours.csv"), join(home, "theirs.csv")];
    for (const table of ["colour", "digest", "tags"]) {
      const report = await tableIds(of({}), table, ours);
      const other = await tableIds(text, table, theirs);
      t.is(report.lines, 400);
      t.is(report.texts, other.texts);
      t.is(readFileSync(ours, "utf8"), readFileSync(theirs, "utf8"), table);
    }
    const some = await tableIds(
      of({ where: [{ column: "colour", equals: "red" }] }),
      "colour",
      ours,
    );
    t.is(some.texts, 1);
    t.true(some.lines > 0 && some.lines < 200);
  });
}
