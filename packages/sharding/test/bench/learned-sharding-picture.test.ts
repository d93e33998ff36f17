// The picture of docs/planning/learned-sharding.md, and the rows that it shows.

import { readFileSync } from "node:fs";
import test from "ava";
import { drawPredictions, files, plansIn, readRows } from "../../bench/picture.ts";

test("the picture of predictions shows the rows that the bench printed", (t) => {
  const plans = plansIn(readRows());
  t.true(plans.length >= 100);
  t.is(readFileSync(files.picture, "utf8"), drawPredictions(plans));
});

test("a plan is drawn at its measured and predicted cost, on the diagonal if they agree", (t) => {
  const drawn = drawPredictions([
    { way: "learned", measured: 2, networks: 2, formulas: 8 },
    { way: "dim", measured: 8, networks: 2, formulas: 8 },
  ]);
  const circles = [...drawn.matchAll(/cx="([\d.]+)" cy="([\d.]+)" r="3"/g)];
  const [same, below] = circles.map(([, x, y]) => ({ x: Number(x), y: Number(y) }));
  // It is equally far from the left and the bottom axis.
  t.true(Math.abs((same?.x ?? 0) - 64 - (372 - (same?.y ?? 0))) < 0.2);
  t.is(below?.y, same?.y);
  t.true((below?.x ?? 0) > (same?.x ?? 0));
});
