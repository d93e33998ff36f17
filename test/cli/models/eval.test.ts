// The output of `osiris eval`: metrics of a model, metrics of slices, and feature importance.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { startDirectory } from "../../data/data-files.ts";
import { clicksJob, writeClicks } from "../../helpers/models/clicks.ts";
import { runCli, runOk } from "../../helpers/processes/cli.ts";
import { lastJson } from "../../helpers/processes/start-cli.ts";
import { drawModel } from "../../helpers/stores/drawn-model.ts";

test.serial("eval prints metrics by slice and by feature, as tables and as JSON", async (t) => {
  const home = startDirectory(t);
  writeClicks(join(home, "clicks.csv"));
  await drawModel({ ...clicksJob(home, "tasks"), evaluation: { fraction: 0.5 } });
  const args = ["eval", "checkpoints", "--by", "price,user", "--slices", "3", "--importance"];
  const run = (...more: string[]) => runCli([...args, ...more], home);
  const result = await run("--data", "clicks.csv");
  t.is(result.code, 0, result.stderr);
  // The counts are from awk -F, 'NR > 1 { rows[$4]++; bought[$4] += $2 }' on the file, sorted by
  // rows.
  const line = (text: string) => text.replaceAll(/ +/g, " +").replaceAll("#", String.raw`[\d.-]+`);
  for (const wanted of [
    "By price · clicked rows positives AUC log loss NE calibration",
    "0\\.25 9 3 # # # #",
    String.raw`others \(4 values\) 33 11 # # # #`,
    "By user · bought rows positives AUC log loss NE calibration",
    String.raw`others \(13 values\) 48 7 # # # #`,
    "Importance · bought AUC falls by log loss rises by",
    "user # #",
  ]) {
    t.regex(result.stdout, new RegExp(`^${line(wanted)}$`, "m"));
  }
  t.regex(result.stdout, /^Each line: AUC 0\.\d+ and log loss .* the rows \(seed 1\)\.$/m);

  // The report of the directory has the slices of the samples that the job holds out.
  await runOk(t, ["report", "checkpoints", "--by", "price", "-o", "a.html"], home);
  t.regex(readFileSync(join(home, "a.html"), "utf8"), /"slices":\[\{"column":"price","slices":\[/);
  const absent = await runCli(["report", "r1", "--by", "price"], home);
  t.regex(absent.stderr, /Expected a checkpoint directory with `--by`, got r1: /);

  const json = lastJson<{
    slices: { column: string; slices: { value: string; metrics: { samples: number } }[] }[];
    importance: { tasks: { task: string; features: { feature: string; aucDrop: number }[] }[] };
  }>(await run("--held-out", "--seed", "3", "--json"));
  t.like(json, { report: "eval", samples: 30, importance: { seed: 3, blockSamples: 65_536 } });
  t.deepEqual(
    json.slices.map(({ column }) => column),
    ["price", "user"],
  );
  t.is(json.slices[0]?.slices.length, 3);
  t.deepEqual(
    json.importance.tasks.map(({ task }) => task),
    ["clicked", "bought"],
  );
  const [first, second] = json.importance.tasks[0]?.features ?? [];
  t.true((first?.aucDrop ?? 0) >= (second?.aucDrop ?? 1));

  const both = await run("--data", "clicks.csv", "--test");
  t.is(both.code, 2);
  t.regex(both.stderr, /Expected one of `--data FILE`, `--test` .* and `--held-out`/);
});
