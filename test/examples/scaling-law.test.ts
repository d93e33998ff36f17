// The scaling law example: docs/models.md and its picture match the committed results, and a single
// point can be trained.

import { execFile } from "node:child_process";
import { appendFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import test from "ava";
import { writeSamples } from "../../examples/planted-interactions.ts";
import { fitPowerLaw, lawAt } from "../../examples/power-law.ts";
import { drawScalingLaw } from "../../examples/scaling-law-picture.ts";
import { startDirectory } from "../data/data-files.ts";
import { testAll, testIf } from "../helpers/needs.ts";
import { textOf } from "../helpers/tree.ts";

interface Outcome {
  readonly point: string;
  readonly seed: number;
  readonly flops: number;
  readonly logLoss: number;
  readonly bestLogLoss: number;
  readonly constantLogLoss: number;
}

const execute = promisify(execFile);
const outcomes = textOf("docs/pictures/scaling-law.jsonl")
  .trimEnd()
  .split("\n")
  .map((line) => JSON.parse(line) as Outcome);

function lossesOf(architecture: string): number[] {
  const own = outcomes.filter(({ point }) => point.startsWith(`${architecture}-`));
  return own.sort((a, b) => a.flops - b.flops).map(({ logLoss }) => logLoss);
}

test("the picture and the table of the scaling law match the committed results", (t) => {
  t.is(textOf("docs/pictures/scaling-law.svg"), drawScalingLaw(outcomes));
  const rows = [
    ...textOf("docs/models.md").matchAll(/^\| `(\w+-\d)` \| ([\d.]+) \| ([\d.]+) \|/gm),
  ];
  t.deepEqual(
    rows.map(([, point, flops, loss]) => [point, flops, loss]).sort(),
    outcomes
      .map(({ point, flops, logLoss }) => [point, (flops / 1e6).toFixed(3), logLoss.toFixed(4)])
      .sort(),
  );
});

test("in the committed results Wukong's loss still falls where DLRM's flattens", (t) => {
  const [wukong, dlrm] = [lossesOf("wukong"), lossesOf("dlrm")];
  t.is(wukong.length, 5);
  for (const [i, loss] of wukong.slice(1).entries()) t.true(loss < (wukong[i] ?? 0), `${wukong}`);
  const flops = outcomes.map((one) => one.flops);
  t.true(Math.max(...flops) > 90 * Math.min(...flops));
  const gainOf = (losses: readonly number[]) => (losses[2] ?? 0) - (losses[4] ?? 0);
  t.true(gainOf(wukong) > 0 && (wukong[4] ?? 1) < Math.min(...dlrm) - 0.005, `${wukong} ${dlrm}`);
  const [first] = outcomes;
  t.true(outcomes.every(({ logLoss }) => logLoss > (first?.bestLogLoss ?? 1)));
});

test("the fit recovers the parameters of a power law", (t) => {
  const law = { a: -0.39, b: 0.01, c: -0.4, residuals: [] };
  const points = [0.01, 0.04, 0.2, 0.4, 1.3].map((x) => ({ x, y: lawAt(law, x) }));
  const found = fitPowerLaw(points);
  for (const name of ["a", "b", "c"] as const) t.true(Math.abs(found[name] - law[name]) < 1e-6);
  t.true(found.residuals.every((one) => Math.abs(one) < 1e-9));
  const noisy = points.map(({ x, y }, i) => ({ x, y: y + (i === 2 ? 0.001 : 0) }));
  t.true(fitPowerLaw(noisy).residuals.some((one) => Math.abs(one) > 2e-4));
});

test("generated samples depend only on their seed, and can be predicted better than a constant", (t) => {
  const home = startDirectory(t);
  const made = [2, 2, 3].map((seed, i) => {
    const path = join(home, `${i}.csv`);
    const { bestLogLoss, constantLogLoss } = writeSamples(path, 5000, seed);
    t.true(bestLogLoss < constantLogLoss - 0.1, `${bestLogLoss} ${constantLogLoss}`);
    return readFileSync(path, "utf8");
  });
  t.is(made[0], made[1]);
  t.not(made[0], made[2]);
});

testIf(testAll)("a point with a recorded result is not trained again", async (t) => {
  const home = startDirectory(t);
  const results = join(home, "results.jsonl");
  const run = (...more: string[]) =>
    execute(process.execPath, [
      ...["dist/examples/scaling-law.js", "--samples", "4000", "--results", results],
      ...["--home", home, ...more],
    ]);
  for (const { point } of outcomes) {
    if (point === "wukong-1") continue;
    appendFileSync(results, `${JSON.stringify({ point, seed: 1, samples: 4000 })}\n`);
  }
  const { stdout } = await run();
  t.regex(stdout, /^wukong-1 +seed 1 +0\.0126 MFLOP +0\.\d{4} .* sha256:\w{64}\n$/);
  const lines = readFileSync(results, "utf8").trimEnd().split("\n");
  t.is(lines.length, outcomes.length);
  const last = JSON.parse(lines.at(-1) ?? "") as Outcome;
  t.is(last.point, "wukong-1");
  // After eight steps the model is better than a constant, and far from the optimum.
  t.true(last.logLoss > last.bestLogLoss && last.logLoss < Math.log(2), `${last.logLoss}`);
  t.is((await run()).stdout, "");
  const unknown = await t.throwsAsync<Error & { stderr?: string }>(run("--point", "wukong-9"));
  t.regex(unknown?.stderr ?? "", /There is no point wukong-9: --list has them all/);
});
