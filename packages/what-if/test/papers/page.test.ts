// docs/papers.md equals the output of `npm run papers`, for the parts that take only seconds.
// Quoted figures are in the documents from which they are quoted.

import { readFileSync } from "node:fs";
import test from "ava";
import { packageFile } from "../../../../internal.ts";
import { claims } from "../../bench/papers/claims.ts";
import { claimLines, inputsHash, modelLines } from "../../bench/papers/page.ts";
import { drawLadder, drawRates, files, type PictureRows } from "../../bench/papers/pictures.ts";
import { headlineOn } from "../../bench/papers/samples-a-second.ts";
import { speedOf, speedText } from "../../bench/papers/variants.ts";
import { zionLines } from "../../bench/papers/zion.ts";

const read = (file: string) => readFileSync(packageFile(file), "utf8");
const again = "run `npm run papers`";

test("docs/papers.md is made from the present models, claims and hardware files", (t) => {
  const page = read("docs/papers.md");
  for (const lines of [modelLines(), claimLines()]) t.true(page.includes(lines.join("\n")), again);
  t.true(page.includes(`<!-- inputs ${inputsHash()} -->`), again);
});

test("docs/papers.md has the present predictions of Zion's platforms, and of model-F", (t) => {
  const page = read("docs/papers.md");
  t.true(page.includes(zionLines().join("\n")), again);
  const platform = { hardware: "zionex", precision: "tensorFloat32" } as const;
  const speed = speedText(speedOf(headlineOn("model-f", platform, 1)));
  t.true(page.includes(`| \`model-f\` | zionex, TF32 | ${speed} |`), `${speed}: ${again}`);
});

test("a row-wise model-F reaches at least a third of the speed that its links allow", (t) => {
  const platform = { hardware: "zionex", precision: "tensorFloat32" } as const;
  // Each way a vector of 256 columns in 16 bits for each table, and for each sample of the others.
  for (const hosts of [2, 4]) {
    const bytes = (hosts - 1) * 512 * 22 * 256 * 2;
    const most = (hosts * 8 * 512) / ((2 * bytes) / (0.56 * 25e9));
    const speed = speedOf(headlineOn("model-f", platform, hosts));
    t.true(speed < most && speed > most / 3, `${speed}, at most ${most}`);
  }
});

test("the pictures of the papers show the rows that were predicted", (t) => {
  const rows = JSON.parse(read(files.rows)) as PictureRows;
  t.is(read(files.rates), drawRates(rows));
  t.is(read(files.ladder), drawLadder(rows));
});

test("every measured figure of docs/papers.md is also in the document that it cites", (t) => {
  for (const { measured, ours } of claims) {
    const text = read(measured.page);
    for (const [i, figure] of measured.figures.entries()) {
      t.true(text.includes(figure), `${figure} is not in ${measured.page}`);
      t.true(ours.includes(`{${i}}`), `${figure} is not shown`);
    }
  }
});
