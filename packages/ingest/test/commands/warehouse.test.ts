// From a shell: tables of Parquet files are inspected, written and compacted.

import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { fixtures } from "../../../../test/data/parquet/parquet-files.ts";
import { runCli, runOk } from "../../../../test/helpers/processes/cli.ts";
import { lastJson } from "../../../../test/helpers/processes/start-cli.ts";

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

test.serial("warehouse inspect summarises a table as text and as JSON", async (t) => {
  const directory = startDirectory(t);
  for (const day of ["day=1", "day=2"]) {
    mkdirSync(join(directory, "clicks", day), { recursive: true });
    copyFileSync(join(fixtures, "clicks.parquet"), join(directory, "clicks", day, "0.parquet"));
  }
  writeFileSync(join(directory, "job.json"), JSON.stringify(job));
  const args = ["warehouse", "inspect", "clicks"];
  const { stdout } = await runOk(t, args, directory);
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

test.serial("warehouse writes a table from a CSV file, and compacts it", async (t) => {
  const directory = startDirectory(t);
  const lines = Array.from({ length: 100 }, (_, i) => `${i % 2},${i},${i % 4}`);
  writeFileSync(join(directory, "clicks.csv"), `${["label,price,day", ...lines].join("\n")}\n`);
  writeFileSync(join(directory, "job.json"), JSON.stringify(job));
  const args = ["warehouse", "write", "clicks.csv", "-o", "table", "--row-group", "5"];
  const more = ["--partition-by", "day", "--order-from", "job.json", "--codec", "gzip"];
  const written = await runOk(t, [...args, ...more], directory);
  t.regex(written.stdout, /^table: 4 files, 100 rows in 20 row groups, /);
  const again = await runCli(args, directory);
  t.is(again.code, 2);
  t.regex(again.stderr, /^osiris: Expected a new directory for the table, but table exists/);
  const compacted = await runOk(t, ["warehouse", "compact", "table"], directory);
  t.regex(
    compacted.stdout,
    /^table\/day=0: 1 file of .* to 1 file of .*, 5 to 1 row group, 25 rows$/m,
  );
  const nothing = await runCli(["warehouse", "compact", "table"], directory);
  t.is(nothing.stdout, "table: nothing to compact\n");
  const report = lastJson<{ partitions: readonly unknown[] }>(
    await runCli(["warehouse", "compact", "table", "--json"], directory),
  );
  t.deepEqual(report.partitions, []);
});
