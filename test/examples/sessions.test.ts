// The recorded result of sessions in docs/models.md: the page is consistent, attention beats the
// mean by more than the seeds' noise, and a short run still gives the result on the page.

import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";
import test from "ava";
import { dataFile, nativeKernels, testAll, testIf } from "../helpers/needs.ts";

const execute = promisify(execFile);
const page = readFileSync("docs/models.md", "utf8");

test("in the recorded sessions attention beats the mean for each seed, by more than their noise", (t) => {
  const rows = [...page.matchAll(/^ +(din|mean) {2} +\d+ {2}.*$/gm)].map(([line]) => {
    const [model, seed, , auc] = line.trim().split(/ +/);
    return { model, seed, auc: Number(auc) };
  });
  const of = (wanted: string) => rows.filter(({ model }) => model === wanted);
  t.is(of("din").length, 5);
  const differences = of("din").map(({ seed, auc }) => {
    return auc - (of("mean").find((other) => other.seed === seed)?.auc ?? Number.NaN);
  });
  const mean = differences.reduce((sum, one) => sum + one, 0) / 5;
  const squares = differences.reduce((sum, one) => sum + (one - mean) ** 2, 0);
  const [, quoted, deviation] = page.match(/^din - mean, paired: ([\d.]+) ± ([\d.]+)$/m) ?? [];
  t.true(Math.abs(Number(quoted) - mean) <= 1e-4);
  t.true(Math.abs(Number(deviation) - Math.sqrt(squares / 4)) <= 1e-4);
  t.true(Number(quoted) > 2 * Number(deviation));
});

testIf(
  testAll,
  dataFile("session/yoochoose100k_train.tsv.gz"),
  nativeKernels,
)("a short run on sessions gives the recorded model", async (t) => {
  const [, command = "", digest = ""] =
    page.match(/^\| `node (dist\/examples\/sessions.*?)` \| `(.*?)` \|$/m) ?? [];
  const { stdout } = await execute(process.execPath, command.split(" "));
  t.true(stdout.trimEnd().endsWith(digest), stdout);
  t.regex(digest, /^sha256:[0-9a-f]{64}$/);
});
