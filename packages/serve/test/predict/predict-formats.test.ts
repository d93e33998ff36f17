// A model predicts files of any format that has its columns, whichever format it was trained on.

import { copyFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { csv, jsonl, parquet } from "../../../../src/data/sources.ts";
import { InputUnusableError } from "../../../../src/errors/errors.ts";
import { loadModel } from "../../../../storage/model/load-model.ts";
import { fixtures as arrowFixtures } from "../../../../test/data/arrow/arrow-files.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { writeLines } from "../../../../test/data/json/click-lines.ts";
import { fixtures, readColumns } from "../../../../test/data/parquet/parquet-files.ts";
import { startTrained } from "../../../../test/helpers/devices/trained.ts";
import { predictFile } from "../../predict/predict-file.ts";

const common = {
  label: "label",
  positive: [1, 2],
  dense: ["age", { column: "price", log: true, missing: "mean" as const }],
  batchSize: 16,
  rejectedMax: 0.6,
};
const ids = ["colour", { column: "shop", ids: "integer" as const, offset: 100 }];
const boolean = { column: "bought", table: "again" };
const ofText = [
  ...ids,
  { column: "tags", separator: "|" },
  { column: "scored", separator: "|", weightSeparator: ":" },
  boolean,
  "firstTag",
];
const ofLists = [
  ...ids,
  { column: "tags", list: "plain" as const },
  { column: "scored", list: "weighted" as const },
  boolean,
  "firstTag",
];
const firstOf = (input: object) => [{ op: "firstX", input, output: "firstTag", x: 1 }] as never;
const ofTags = firstOf({ column: "tags", separator: "|" });
const ofTagLists = firstOf({ column: "tags", list: "plain" });

for (const trainedOn of ["csv", "parquet", "jsonl"] as const) {
  test(`a model of ${trainedOn} predicts the same for the same rows in every format`, async (t) => {
    const home = startDirectory(t);
    const cache = join(home, "cache");
    const lines = writeLines(home);
    const lists = { ...common, cache, categorical: ofLists, transforms: ofTagLists };
    const data = {
      csv: () =>
        csv(join(fixtures, "clicks.csv"), {
          ...{ ...common, cache, categorical: ofText, transforms: ofTags },
        }),
      parquet: () => parquet(join(fixtures, "clicks.parquet"), lists),
      jsonl: () => jsonl(lines, lists),
    }[trainedOn]();
    const tables = ["colour", "shop", "tags", "scored", "again", "firstTag"].map((name) => {
      return {
        name,
        rows: 130,
        dim: 4,
        initScale: 0.3,
        ids: name === "shop" ? ("clamp" as const) : ("hash" as const),
      };
    });
    const directory = join(home, "checkpoints");
    const trained = await startTrained({
      model: { kind: "dlrm", dense: 2, tables, bottom: [4], top: [1] },
      data,
      checkpoint: { directory },
    });
    await trained.train({ cut: 1 });
    const model = await loadModel(directory);
    t.teardown(() => model.close());
    const out = join(home, "scored.parquet");
    const predictionsOf = async (file: string) => {
      const { samples, bad } = await predictFile(model, file, out);
      return { samples, bad, columns: await readColumns(out, ["row", "probability"]) };
    };
    const own = { csv: join(fixtures, "clicks.csv"), parquet: join(fixtures, "clicks.parquet") };
    const wanted = await predictionsOf({ ...own, jsonl: lines }[trainedOn]);
    t.is(wanted.samples + wanted.bad, 400);
    t.true(new Set(wanted.columns.probability).size > 200);
    const arrows = ["clicks.arrow", "clicks.arrows"].map((name) => join(arrowFixtures, name));
    for (const file of [own.csv, own.parquet, lines, ...arrows]) {
      t.deepEqual(await predictionsOf(file), wanted, file);
    }
    // Predicts files of two formats in one call.
    mkdirSync(join(home, "both"));
    copyFileSync(own.csv, join(home, "both", "a.csv"));
    copyFileSync(own.parquet, join(home, "both", "b.parquet"));
    const both = ["a.csv", "b.parquet"].map((name) => join(home, "both", name));
    await t.throwsAsync(predictFile(model, both, out), {
      instanceOf: InputUnusableError,
      message: `Expected files of one format, got ${both.join(" and ")}`,
    });
  });
}
