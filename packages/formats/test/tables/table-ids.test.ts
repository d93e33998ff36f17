// The map from texts to rows: read from the data, it agrees with training and with the formula in
// the documents.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { murmurHash3 } from "../../../../src/data/murmur-hash.ts";
import { type JobOptions, resolveJob } from "../../../../src/job/job.ts";
import { startDirectory, writeText } from "../../../../test/data/data-files.ts";
import { startTrained } from "../../../../test/helpers/devices/trained.ts";
import { exportTable } from "../../tables/export-table.ts";
import { jobOfCheckpoint, tableIds } from "../../tables/table-ids.ts";

const cities = ["Zürich", "Basel", 'St. "Gallen"', "", "Bern"];

/** A job on 200 lines: a hashed column, one of integers, and one of several ids with weights. */
function startJob(t: ExecutionContext): { job: JobOptions; home: string } {
  const home = startDirectory(t);
  const lines = Array.from({ length: 200 }, (_, i) => {
    const city = cities[i % 5] ?? "";
    const quoted = city.includes('"') ? `"${city.replaceAll('"', '""')}"` : city;
    return `${i % 2},${i % 7},${quoted},${100 + (i % 3)},x${i % 4}:0.5|y:2`;
  });
  const path = writeText(home, { name: "a.csv", text: `y,d,city,age,tags\n${lines.join("\n")}\n` });
  const table = (name: string, rows: number) => ({ name, rows, dim: 4 });
  const job: JobOptions = {
    model: {
      kind: "dlrm",
      dense: 1,
      tables: [table("age", 5), table("city", 500), table("tags", 50)],
      bottom: [4],
      top: [1],
    },
    data: {
      kind: "csv",
      paths: [path],
      label: "y",
      dense: ["d"],
      categorical: [
        "city",
        { column: "age", ids: "integer", offset: 100 },
        { column: "tags", separator: "|", weightSeparator: ":" },
      ],
      batchSize: 20,
      cache: join(home, "cache"),
    },
    checkpoint: { directory: join(home, "checkpoints") },
  };
  return { job, home };
}

test("every text has the row that training gave it, in every kind of column", async (t) => {
  const { job, home } = startJob(t);
  await (await startTrained(job)).train({ cut: 1 });
  const directory = join(home, "checkpoints");
  for (const [table, texts, missing] of [
    ["city", 4, true],
    ["age", 3, false],
    ["tags", 5, false],
  ] as const) {
    const map = join(home, `${table}-ids.csv`);
    const report = await tableIds(jobOfCheckpoint(directory), table, map);
    t.like(report, { table, column: table, lines: 200, texts, rows: texts });
    await exportTable(directory, table, join(home, `${table}.csv`));
    const firstOf = (file: string) => {
      const lines = readFileSync(join(home, file), "utf8").trimEnd().split("\n").slice(1);
      return lines.map((line) => Number(line.split(",")[0]));
    };
    const born = firstOf(`${table}.csv`);
    t.deepEqual(missing ? born.filter((row) => row !== 0) : born, firstOf(`${table}-ids.csv`));
  }
  const cityLines = readFileSync(join(home, "city-ids.csv"), "utf8").split("\n");
  t.true(cityLines.includes(`${rowOf("Zürich", 1, 500)},Zürich,40`));
  t.true(cityLines.includes(`${rowOf('St. "Gallen"', 1, 500)},"St. ""Gallen""",40`));
  t.is(
    readFileSync(join(home, "age-ids.csv"), "utf8"),
    "row,text,count\n0,100,67\n1,101,67\n2,102,66\n",
  );
});

const rowOf = (text: string, table: number, rows: number) =>
  1 + (murmurHash3(Buffer.from(text, "utf8").toString("latin1"), table) % (rows - 1));

test("an export's metadata has the rule, and the documents' example is right", async (t) => {
  const { job, home } = startJob(t);
  await (await startTrained(job)).train({ cut: 1 });
  const notesOf = async (table: string) => {
    const file = join(home, `${table}.safetensors`);
    await exportTable(join(home, "checkpoints"), table, file);
    const bytes = readFileSync(file);
    const header = bytes.subarray(8, 8 + Number(bytes.readBigUInt64LE())).toString();
    return JSON.parse(header).__metadata__ as Record<string, string>;
  };
  t.like(await notesOf("city"), {
    column: "city",
    ids: "hash",
    row: "1 + MurmurHash3_x86_32(UTF-8 bytes of the text, seed 1) mod 499; 0: missing",
  });
  t.like(await notesOf("age"), {
    column: "age",
    ids: "integer",
    row: "the number minus 100; beyond the rows: reject",
  });
  const page = readFileSync("packages/formats/docs/tables.md", "utf8");
  const examples = [...page.matchAll(/row_of\("(.*)", table=(\d+), rows=(\d+)\) +# (\d+)$/gm)];
  t.is(examples.length, 2);
  for (const [, text = "", table, rows, row] of examples) {
    t.is(rowOf(text, Number(table), Number(rows)), Number(row), text);
  }
});

test("a table or data source without texts is refused, and the error says why", async (t) => {
  const { job, home } = startJob(t);
  const out = join(home, "ids.csv");
  await t.throwsAsync(tableIds(resolveJob(job), "town", out), {
    code: "INVALID_OPTION",
    message: "Expected a table of the model, `age`, `city`, `tags`, got `town`",
  });
  const data = { kind: "synthetic", samples: 10, dense: 1, batchSize: 1 } as const;
  await t.throwsAsync(tableIds(resolveJob({ ...job, data }), "city", out), {
    code: "INVALID_OPTION",
    message: "The data of table `city` is generated: its ids are rows, and have no text",
  });
  const gone = tableIds(resolveJob(job), "city", out, { paths: [join(home, "none.csv")] });
  await t.throwsAsync(gone, {
    code: "INPUT_UNUSABLE",
    message: /^Cannot read the data file .*none/,
  });
});
