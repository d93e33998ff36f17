// From a shell: `osiris transform` shows the rows of a file after a job's transforms.

import { copyFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { startDirectory } from "../data/data-files.ts";
import { fixtures } from "../data/parquet/parquet-files.ts";
import { runCli, runOk } from "../helpers/processes/cli.ts";
import { lastJson } from "../helpers/processes/start-cli.ts";
import { textOf } from "../helpers/tree.ts";

const example = /^```yaml\n(model:\n {2}kind: dlrm\n.*?hashText.*?)^```/ms;

const lines = ["1,7,3,red,4|9", "0,,x,blue,", "1,99,18,red,5", "0,20,19,red,"];

function start(t: ExecutionContext): string {
  const directory = startDirectory(t);
  const text = `clicked,price,user,brand,tags\n${lines.join("\n")}\n`;
  writeFileSync(join(directory, "clicks.csv"), text);
  const [, job = ""] = example.exec(textOf("docs/data.md")) ?? [];
  t.true(job.includes("userBrand"));
  writeFileSync(join(directory, "job.yaml"), job);
  return directory;
}

interface Report {
  readonly rows: readonly {
    readonly row: number;
    readonly read: Readonly<Record<string, string>>;
    readonly made: Readonly<Record<string, string>>;
    readonly dense?: readonly number[];
    readonly bags?: Readonly<Record<string, readonly number[]>>;
    readonly fault?: string;
  }[];
}

test.serial("transform prints the columns, outputs and samples of the example", async (t) => {
  const directory = start(t);
  const args = ["transform", "clicks.csv", "--job", "job.yaml", "--head", "2"];
  const { stdout } = await runOk(t, args, directory);
  const [first = "", second = ""] = stdout.split(/^(?=row 3)/m);
  t.regex(first, /^row 2\n/);
  t.regex(first, /^ {4}price +7\n/m);
  t.regex(first, /^ {2}\+ logPrice +2\.0794/m);
  t.regex(first, /^ {2}\+ priceBucket +\[1\]\n/m);
  t.regex(first, /^ {2}\+ tagIds +\[\d+, \d+\]\n/m);
  t.regex(first, /^ {2}= priceBucket +\[1\]\n/m);
  t.regex(second, /^ {4}price +\(none\)\n/m);
  t.regex(second, /^ {2}! a bad row: expected `user`, which a transform reads, to be an integer/m);
  t.notRegex(stdout, /^row 4/m);
  const all = await runCli([...args.slice(0, 4), "--json"], directory);
  const { rows } = lastJson<Report>(all);
  t.deepEqual(
    rows.map(({ row }) => row),
    [2, 3, 4, 5],
  );
  const [one, , third] = rows;
  t.deepEqual(one?.dense, [Math.fround(Math.log(8))]);
  t.deepEqual(one?.bags?.tagIds?.join(", "), one?.made.tagIds?.slice(1, -1));
  t.is(one?.made.brandHash, third?.made.brandHash);
});

test.serial(
  "transform reads Parquet tables, too, and refuses invalid files and generated data",
  async (t) => {
    const directory = start(t);
    copyFileSync(join(fixtures, "clicks.parquet"), join(directory, "clicks.parquet"));
    const transforms = [
      { op: "log", input: "price", output: "logPrice", plus: 1 },
      { op: "firstX", input: { column: "scored", list: "weighted" }, output: "best", x: 1 },
    ];
    const data = { kind: "parquet", paths: ["clicks.parquet"], label: "label", batchSize: 8 };
    const model = { kind: "dlrm", table: { rows: 99, dim: 4 }, bottom: [4], top: [4, 1] };
    const job = {
      model,
      data: { ...data, transforms, dense: ["logPrice"], categorical: ["best"] },
    };
    writeFileSync(join(directory, "job.json"), JSON.stringify(job));
    const args = ["transform", "clicks.parquet", "--job", "job.json", "--head", "3"];
    const table = await runOk(t, [...args, "--json"], directory);
    const { rows } = lastJson<Report>(table);
    t.is(rows.length, 3);
    t.deepEqual(Object.keys(rows[0]?.read ?? {}).sort(), ["price", "scored"]);
    t.is(rows[1]?.made.logPrice, String(Math.log(Number(rows[1]?.read.price) + 1)));
    t.regex(rows[0]?.made.best ?? "", /^\[2:0\.9375\]$/);
    copyFileSync("test/fixtures/arrow/clicks.arrows", join(directory, "clicks.arrows"));
    const ofArrow = { ...job, data: { ...job.data, kind: "arrow", paths: ["clicks.arrows"] } };
    writeFileSync(join(directory, "arrow.json"), JSON.stringify(ofArrow));
    const asArrow = ["transform", "clicks.arrows", "--job", "arrow.json", "--head", "3", "--json"];
    t.deepEqual(lastJson<Report>(await runCli(asArrow, directory)).rows, rows);
    const none = await runCli(["transform", "none.csv", "--job", "job.yaml"], directory);
    t.is(none.code, 2);
    t.regex(none.stderr, /^osiris: .*none\.csv/);
    const generated = { ...job, data: { kind: "synthetic", samples: 9, batchSize: 8, dense: 1 } };
    writeFileSync(
      join(directory, "generated.json"),
      JSON.stringify({ ...generated, model: { ...model, tables: [{ name: "T0" }] } }),
    );
    const wrong = await runCli(["transform", "clicks.csv", "--job", "generated.json"], directory);
    t.is(wrong.code, 2);
    t.regex(wrong.stderr, /^osiris: Expected `data\.kind` to be one of files/);
  },
);
