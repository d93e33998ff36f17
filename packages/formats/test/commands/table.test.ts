// `osiris table` as a command: a table is exported, inspected, and imported again.

import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import type { JobOptions } from "../../../../index.ts";
import { jobOf } from "../../../../test/cli/jobs.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { startTrained } from "../../../../test/helpers/devices/trained.ts";
import { runCli } from "../../../../test/helpers/processes/cli.ts";
import { lastJson } from "../../../../test/helpers/processes/start-cli.ts";

test.serial("a table is exported, and imported into a checkpoint that trains", async (t) => {
  const directory = startDirectory(t);
  const run = (...args: string[]) => runCli(args, directory);
  writeFileSync(join(directory, "job.json"), JSON.stringify(jobOf("checkpoints")));
  const trained = lastJson<{ digest: string }>(await run("train", "job.json", "--json"));

  const looked = await run("table", "inspect", "checkpoints", "--json");
  t.is(looked.code, 0, looked.stderr);
  const found = lastJson<{ tables: { name: string; born: number }[] }>(looked);
  t.like(found, { report: "table.inspect", digest: trained.digest, cut: 43 });
  const born = found.tables.find(({ name }) => name === "B")?.born ?? 0;
  t.true(born > 0 && born <= 200);
  const shown = await run("table", "inspect", "checkpoints");
  t.regex(
    shown.stdout,
    /table +rows +initialised +dim +precision +parts +bytes +mean norm\nA +200 /,
  );
  const one = await run("table", "inspect", "checkpoints", "B");
  t.regex(one.stdout, /Table +B: 200 rows of 8 columns in float32\nInitialised +/);
  t.regex(one.stdout, /Norm .*\n.* … .*█/);

  for (const file of ["B.safetensors", "B.csv", "B.parquet"]) {
    const out = await run("table", "export", "checkpoints", "B", "--out", file, "--state");
    t.is(out.code, 0, out.stderr);
    t.true(out.stdout.startsWith(`${file}: ${born} rows of 8 columns, `), out.stdout);
    const made = `from-${file}`;
    const args = ["table", "import", "checkpoints", "B", "--from", file, "--out", made, "--json"];
    const back = await run(...args);
    t.is(back.code, 0, back.stderr);
    const report = { report: "table.import", rows: born, digest: trained.digest, hasState: true };
    t.like(lastJson(back), report);
  }
  t.is(readFileSync(join(directory, "B.csv"), "utf8").split("\n").length, born + 2);
  const job = { ...jobOf("from-B.csv") };
  writeFileSync(join(directory, "again.json"), JSON.stringify(job));
  const again = await run("train", "again.json", "--json");
  t.like(lastJson(again), { report: "train", digest: trained.digest });

  const wrong: [string[], RegExp][] = [
    [["export", "checkpoints", "C", "--out", "C.csv"], /Expected a table of the model, `A`, `B`/],
    [["export", "checkpoints", "B", "--out", "B.npy"], /Expected a file ending in .*, got B\.npy/],
    [["export", "nowhere", "B", "--out", "C.csv"], /nowhere/],
    [["export", "checkpoints", "B", "--out", "no/B.csv"], /Cannot write no\/B\.csv: ENOENT/],
    [["import", "checkpoints", "B", "--from", "none.csv", "--out", "x"], /none\.csv: ENOENT/],
    [["import", "checkpoints", "A", "--from", "B.csv", "--out", "from-B.csv"], /new or empty/],
    [["import", "checkpoints", "B", "--from", "B.csv"], /required option '--out/],
  ];
  for (const [args, sentence] of wrong) {
    const ended = await run("table", ...args);
    t.is(ended.code, 2, `${args.join(" ")}: ${ended.stderr}`);
    t.regex(ended.stderr, sentence);
    t.notRegex(ended.stderr, /\n {4}at /);
  }
  t.false(existsSync(join(directory, "x")));
  t.deepEqual(
    readdirSync(directory).filter((name) => name.includes("temp")),
    [],
  );
});

test.serial(
  "`table ids` maps texts to rows, from a checkpoint, a job file, or beside an export",
  async (t) => {
    const directory = startDirectory(t);
    const run = (...args: string[]) => runCli(args, directory);
    const lines = Array.from({ length: 64 }, (_, i) => `${i % 2},${i},v${i % 3}`);
    writeFileSync(join(directory, "data.csv"), `y,d,c\n${lines.join("\n")}\n`);
    const columns = { label: "y", dense: ["d"], categorical: ["c"], batchSize: 8, cache: "cache" };
    const tables = [{ name: "c", rows: 100, dim: 4 }];
    const job = {
      model: { kind: "dlrm", dense: 1, tables, bottom: [4], top: [1] },
      data: { kind: "csv", paths: ["data.csv"], ...columns },
      checkpoint: { directory: "checkpoints" },
    };
    writeFileSync(join(directory, "job.json"), JSON.stringify(job));
    const place = (name: string) => join(directory, name);
    const data = { ...job.data, paths: [place("data.csv")], cache: place("cache") };
    const spec = { ...job, data, checkpoint: { directory: place("checkpoints") } };
    await (await startTrained(spec as JobOptions)).train({ cut: 1 });
    const result = await run("table", "ids", "checkpoints", "c", "--out", "a.csv");
    t.is(result.stdout, "a.csv: 3 texts of column c in 3 rows (64 lines read)\n");
    const map = readFileSync(join(directory, "a.csv"), "utf8");
    t.regex(map, /^row,text,count\n(\d+,v[012],2[12]\n){3}$/);
    const ofFile = await run("table", "ids", "job.json", "c", "--out", "b.csv", "--json");
    t.like(lastJson(ofFile), { report: "table.ids", texts: 3, rows: 3, lines: 64 });
    const beside = await run(
      "table",
      "export",
      "checkpoints",
      "c",
      "--out",
      "c.csv",
      "--ids",
      "d.csv",
    );
    t.regex(beside.stdout, /^c\.csv: 3 rows .*\nd\.csv: 3 texts/);
    for (const file of ["b.csv", "d.csv"]) t.is(readFileSync(join(directory, file), "utf8"), map);
    const wrong = await run("table", "ids", "checkpoints", "cc", "--out", "e.csv");
    t.is(wrong.code, 2);
    t.is(wrong.stderr, "osiris: Expected a table of the model, `c`, got `cc`\n");
    t.false(existsSync(join(directory, "e.csv")));
  },
);
