// docs/papers.md: written from the present inputs, with figures that their documents have. The
// whole page takes minutes, so some of its parts are made again.

import { readFileSync } from "node:fs";
import test from "ava";
import { packageFile } from "../../../../internal.ts";
import { claims } from "../../bench/papers/claims.ts";
import { claimLines, headlineOn, inputsHash } from "../../bench/papers/page.ts";
import { drawLadder, drawRates, files, type PictureRows } from "../../bench/papers/pictures.ts";
import { speedOf, speedText } from "../../bench/papers/variants.ts";

const textOf = (page: string) => readFileSync(packageFile(page), "utf8");
const stale = "`npm run papers` writes docs/papers.md anew";

test("the page of the papers is of the present models and machines", (t) => {
  const page = textOf("docs/papers.md");
  t.true(page.includes(`<!-- inputs ${inputsHash()} -->`), stale);
  t.true(page.includes(claimLines().join("\n").trimEnd()), stale);
});

test("a prediction on the page of the papers comes out again", (t) => {
  const speed = speedOf(headlineOn("model-i", { hardware: "zionex", precision: "float32" }, 1));
  const line = /\| `model-i` \| zionex \| ([^|]+) \|/.exec(textOf("docs/papers.md"))?.[1];
  t.is(line, speedText(speed), stale);
});

test("the pictures of the papers show the rows that were predicted", (t) => {
  const rows = JSON.parse(textOf(files.rows)) as PictureRows;
  t.is(textOf(files.rates), drawRates(rows));
  t.is(textOf(files.ladder), drawLadder(rows));
});

for (const page of new Set(claims.map(({ measured }) => measured.page))) {
  test(`figures quoted from ${page} are in it`, (t) => {
    const text = textOf(page);
    for (const { measured, ours, paper } of claims) {
      if (measured.page !== page) continue;
      for (const [i, figure] of measured.figures.entries()) {
        t.true(text.includes(figure), `${paper}: ${figure} is not in ${page}`);
        t.true(ours.includes(`{${i}}`), `${paper}: ${figure} is not shown`);
      }
    }
  });
}
