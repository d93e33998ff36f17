// From a shell: what a table of Parquet files is made of, and what a job reads of it.

import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { fixtures } from "../data/parquet/parquet-files.ts";
import { lastJson, runCli } from "../helpers/processes/cli.ts";
import { directoryOf } from "./jobs.ts";

const job = {
  model: { kind: "dlrm", table: { rows: 99, dim: 4 }, bottom: [4], top: [4, 1] },
  data: {
    kind: "parquet",
    paths: ["clicks"],
    batchSize: 8,
    label: "label",
    dense: ["price"],
    categorical: [{ column: "scored", list: "weighted" }],
  },
};

test.serial("a table at a glance, and for machines", async (t) => {
  const directory = directoryOf(t);
  for (const day of ["day=1", "day=2"]) {
    mkdirSync(join(directory, "clicks", day), { recursive: true });
    copyFileSync(join(fixtures, "clicks.parquet"), join(directory, "clicks", day, "0.parquet"));
  }
  writeFileSync(join(directory, "job.json"), JSON.stringify(job));
  const args = ["warehouse", "inspect", "clicks"];
  const { code, stdout } = await runCli(args, directory);
  t.is(code, 0);
  t.regex(stdout, /^2 files, [\d,]+ rows, /);
  t.regex(stdout, /^day=2 +1 +\d+ +\d+ /m);
  t.regex(stdout, /^price +(FLOAT|DOUBLE) /m);
  t.notRegex(stdout, /The job reads/);
  const withJob = await runCli([...args, "--job", "job.json"], directory);
  t.regex(withJob.stdout, /^price .* read$/m);
  t.regex(withJob.stdout, /^The job reads {8}3 columns of \d+ row groups in 2 files$/m);
  const report = lastJson<{ report: string; files: number; job: { wanted: number; read: number } }>(
    await runCli([...args, "--job", "job.json", "--json"], directory),
  );
  t.is(report.report, "warehouse.inspect");
  t.true(report.job.wanted > 0 && report.job.read >= report.job.wanted);
  const none = await runCli(["warehouse", "inspect", "nowhere"], directory);
  t.is(none.code, 2);
  t.regex(none.stderr, /^osiris: .*nowhere/);
});
