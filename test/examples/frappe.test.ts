// The recorded result of Frappe in docs/models.md: the page is consistent, and the short run, the
// first epoch of its first seed, still gives the result on the page.

import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";
import test from "ava";
import { dataFile, nativeKernels, testAll, testIf } from "../helpers/needs.ts";

const execute = promisify(execFile);
const page = readFileSync("docs/models.md", "utf8");
const digest = /^sha256:[0-9a-f]{64}$/;

/** Tolerance of the recorded AUCs with another arithmetic. */
const aucTolerance = 0.002;

test("the recorded means and deviations of Frappe are those of the recorded seeds", (t) => {
  const seeds = [...page.matchAll(/^ +\d+ {2}.*$/gm)].map(([line]) => line.trim().split(/ +/));
  t.deepEqual(
    seeds.map(([seed]) => seed),
    ["1", "2", "3", "4", "5"],
  );
  t.is(new Set(seeds.map((row) => row[8])).size, 5);
  t.true(seeds.every((row) => digest.test(row[8] ?? "")));
  const [line = ""] = page.match(/^mean of 5 \(.*$/m) ?? [];
  const figures = [...line.matchAll(/([\d.]+) ± ([\d.]+)/g)].map(([, ...two]) => two.map(Number));
  t.is(figures.length, 4);
  for (const [at, [mean = 0, deviation = 0]] of figures.entries()) {
    const values = seeds.map((row) => Number(row[1 + at]));
    const expected = values.reduce((sum, value) => sum + value, 0) / 5;
    const squares = values.reduce((sum, value) => sum + (value - expected) ** 2, 0);
    t.true(Math.abs(mean - expected) <= 1e-4, `${mean} is not the mean ${expected}`);
    const spread = Math.sqrt(squares / 4);
    t.true(Math.abs(deviation - spread) <= 1e-4, `${deviation} is not the deviation ${spread}`);
  }
});

testIf(
  testAll,
  dataFile("frappe/train.csv.gz"),
  nativeKernels,
)("a short run on Frappe gives the recorded model", async (t) => {
  const [, command = ""] = page.match(/^\| `node (dist.*?)` \|/m) ?? [];
  const { stdout } = await execute(process.execPath, [...command.split(" "), "--json"]);
  const { outcomes } = JSON.parse(stdout.trimEnd().split("\n").at(-1) ?? "");
  const [outcome] = outcomes;
  t.is(outcomes.length, 1);
  const rows = [...page.matchAll(/^\| `((?:native|reference)-\d+)`.*?\| (.*) \|$/gm)].map(
    ([, name, cells = ""]) => {
      const [validAuc, testAuc, , recorded] = cells.split(" | ");
      return { name, aucs: [validAuc, testAuc], digest: recorded?.replaceAll("`", "") };
    },
  );
  t.is(rows.length, 2);
  const same = rows.find(({ name }) => name === outcome.arithmetic);
  const { aucs } = same ?? rows[0] ?? { aucs: [] };
  for (const [at, auc] of [outcome.validAuc, outcome.testAuc].entries()) {
    if (same !== undefined) t.is(auc.toFixed(4), aucs[at]);
    else t.true(Math.abs(auc - Number(aucs[at])) <= aucTolerance, `AUC ${auc}, not ${aucs[at]}`);
  }
  if (same !== undefined) t.is(outcome.digest, same.digest);
});
