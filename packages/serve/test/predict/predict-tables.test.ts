// Predictions of Parquet files and of JSON Lines, row by row.

import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import type { JobOptions } from "../../../../internal.ts";
import { jsonl, parquet } from "../../../../src/data/sources.ts";
import { InvalidOptionError } from "../../../../src/errors/errors.ts";
import { loadModel } from "../../../../storage/model/load-model.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { fixtures, readColumns } from "../../../../test/data/parquet/parquet-files.ts";
import { startTrained } from "../../../../test/helpers/devices/trained.ts";
import { predictFile } from "../../predict/predict-file.ts";

/** The columns of `clicks.parquet`. */
const columns = {
  label: "label",
  positive: [1, 2],
  dense: ["age", { column: "price", log: true, missing: "mean" as const }],
  batchSize: 16,
  categorical: [
    "colour",
    { column: "shop", ids: "integer" as const },
    { column: "tags", list: "plain" as const },
    { column: "scored", list: "weighted" as const },
  ],
  rejectedMax: 0.6,
};

async function trainedOnClicks(t: ExecutionContext) {
  const home = startDirectory(t);
  const directory = join(home, "checkpoints");
  const tables = ["colour", "shop", "tags", "scored"].map((name) => {
    return {
      name,
      rows: 130,
      dim: 16,
      initScale: 0.3,
      ids: name === "shop" ? ("reject" as const) : ("hash" as const),
    };
  });
  const trained = await startTrained({
    model: { kind: "dlrm", dense: 2, tables, bottom: [16], top: [8, 1] },
    data: parquet(join(fixtures, "clicks.parquet"), { ...columns, cache: join(home, "cache") }),
    checkpoint: { directory },
  });
  for (let cut = 1; cut <= 3; cut++) await trained.train({ cut });
  const model = await loadModel(directory);
  t.teardown(() => model.close());
  return { home, model };
}

test("each object of a JSON Lines file gets one more member", async (t) => {
  const home = startDirectory(t);
  const path = join(home, "clicks.jsonl");
  const lines = Array.from({ length: 200 }, (_, i) => {
    return { label: i % 3 === 0 ? 1 : 0, colour: `c${i % 7}`, tags: [i % 5, i % 11], age: i / 10 };
  });
  writeFileSync(path, lines.map((line) => JSON.stringify(line)).join("\n"));
  const named = ["colour", "tags", "firstTag"];
  const tables = named.map((name) => ({ name, rows: 50, dim: 4, initScale: 0.5 }));
  const data = jsonl(path, {
    ...{ label: "label", dense: ["logAge"], batchSize: 16, cache: join(home, "cache") },
    transforms: [
      { op: "log", input: "age", output: "logAge", plus: 1 },
      { op: "firstX", input: { column: "tags", list: "plain" }, output: "firstTag", x: 1 },
    ],
    categorical: ["colour", { column: "tags", list: "plain" }, "firstTag"],
  });
  const directory = join(home, "checkpoints");
  const model: JobOptions["model"] = { kind: "dlrm", dense: 1, tables, bottom: [4], top: [1] };
  await (await startTrained({ model, data, checkpoint: { directory } })).train({ cut: 1 });
  const trained = await loadModel(directory);
  t.teardown(() => trained.close());
  const out = join(home, "scored.jsonl");
  writeFileSync(path, `${JSON.stringify(lines[0])}\n{"colour":[1]}\n${JSON.stringify(lines[4])}\n`);
  const report = await predictFile(trained, path, out, { column: "click" });
  t.like(report, { samples: 2, bad: 1 });
  t.is(report.firstBad?.reason, "expected `colour` to be one value, got `[1]`");
  const scored = readFileSync(out, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  const [first, last] = [lines[0], lines[4]];
  const wanted = await trained.predict([first, last] as never);
  t.deepEqual(scored, [
    { ...first, click: Number(wanted[0]?.toPrecision(9)) },
    { colour: [1], click: null },
    { ...last, click: Number(wanted[1]?.toPrecision(9)) },
  ]);
  const again = predictFile(trained, out, join(home, "again.jsonl"), { column: "click" });
  await t.throwsAsync(again, { message: /has a column `click` already: name another/ });
});

test("files of a directory are predicted in order, with columns that the model does not read", async (t) => {
  const { home, model } = await trainedOnClicks(t);
  const clicks = join(fixtures, "clicks.parquet");
  const one = join(home, "one.parquet");
  await predictFile(model, clicks, one);
  const { probability = [] } = await readColumns(one, ["probability"]);
  // Two days, one partition each.
  const days = ["2026-11-27", "2026-11-28"];
  for (const day of days) {
    mkdirSync(join(home, "days", `day=${day}`), { recursive: true });
    copyFileSync(clicks, join(home, "days", `day=${day}`, "clicks.parquet"));
  }
  const out = join(home, "scored.jsonl");
  // Keeps the label and the partition key.
  await predictFile(model, join(home, "days"), out, { keep: ["label", "day"] });
  const { label = [] } = await readColumns(clicks, ["label"]);
  t.true(label.some((value) => value === null) || label.length === 400);
  const found = readFileSync(out, "utf8").trimEnd().split("\n");
  t.deepEqual(
    found.map((line) => JSON.parse(line)),
    days.flatMap((day, file) =>
      label.map((value, i) => {
        const raw = probability[i];
        const number = raw === null ? null : Number(Number(raw).toPrecision(9));
        const text = value === null ? null : String(value);
        return { row: 400 * file + i, label: text, day, probability: number };
      }),
    ),
  );
});

test("each row gets its probability, and a bad row none", async (t) => {
  const { home, model } = await trainedOnClicks(t);
  const out = join(home, "scored.parquet");
  const report = await predictFile(model, join(fixtures, "clicks.parquet"), out, {
    column: "click",
  });
  const { row, click = [] } = await readColumns(out, ["row", "click"]);
  t.deepEqual(
    row,
    Array.from({ length: 400 }, (_, i) => i),
  );
  t.is(click.filter((value) => value === null).length, report.bad);
  const lines = join(home, "scored.jsonl");
  const keep = ["colour", "tags"];
  await predictFile(model, join(fixtures, "clicks.parquet"), lines, { column: "click", keep });
  const written = readFileSync(lines, "utf8").trimEnd().split("\n");
  const kept = await readColumns(join(fixtures, "clicks.parquet"), keep, true);
  t.deepEqual(
    written.map((line) => JSON.parse(line)),
    click.map((value, i) => {
      const number = value === null ? null : Number(Number(value).toPrecision(9));
      const tags = (kept.tags?.[i] ?? []) as readonly unknown[];
      const list = tags.length === 0 ? null : tags.join("|");
      const text = kept.colour?.[i];
      const colour = typeof text === "string" ? Buffer.from(text, "latin1").toString() : null;
      return { row: i, colour, tags: list, click: number };
    }),
  );
  const other = predictFile(model, join(fixtures, "clicks.parquet"), lines, { keep: ["nobody"] });
  await t.throwsAsync(other, {
    message: /^`keep` names the column `nobody`, which .* does not have/,
  });
  t.true(report.bad > 50 && report.samples + report.bad === 400);
  t.regex(report.firstBad?.reason ?? "", /expected `shop` to lie in 0\.\.129/);
  const names = ["age", "price", "colour", "shop", "tags", "scored"];
  const records = await readColumns(join(fixtures, "clicks.parquet"), names, true);
  const at = click.findIndex((value, i) => value !== null && records.scored?.[i] !== null);
  const scored = (records.scored?.[at] ?? []) as [string, number][];
  const record = {
    ...Object.fromEntries(names.map((name) => [name, records[name]?.[at] as never])),
    scored: scored.map(([id, weight]) => `${id}:${weight}`),
  };
  t.deepEqual([...(await model.predict([record]))], [click[at]]);
});

test("a file that lacks a feature is refused, and the error names the feature", async (t) => {
  const { home, model } = await trainedOnClicks(t);
  const path = join(fixtures, "flat/snappy.parquet");
  const error = await t.throwsAsync(predictFile(model, path, join(home, "scored.parquet")), {
    instanceOf: InvalidOptionError,
  });
  t.regex(error.message, /names the column `age`, which .* does not have/);
});
