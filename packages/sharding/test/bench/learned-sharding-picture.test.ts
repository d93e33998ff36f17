// The picture of docs/planning/learned-sharding.md, and the rows that it is drawn from.

import { readFileSync } from "node:fs";
import test from "ava";
import { drawPredictions, files, plansIn, readRows } from "../../bench/picture.ts";

test("the picture of predictions is drawn from the rows that the bench printed", (t) => {
  const plans = plansIn(readRows());
  t.true(plans.length >= 100);
  t.is(readFileSync(files.picture, "utf8"), drawPredictions(plans));
});

test("a plan lies where it was measured and predicted: on the line where both agree", (t) => {
  const drawn = drawPredictions([
    { way: "learned", measured: 2, networks: 2, formulas: 8 },
    { way: "dim", measured: 8, networks: 2, formulas: 8 },
  ]);
  const circles = [...drawn.matchAll(/cx="([\d.]+)" cy="([\d.]+)" r="3"/g)];
  const [same, below] = circles.map(([, x, y]) => ({ x: Number(x), y: Number(y) }));
  // From the left bottom corner both go as far.
  t.true(Math.abs((same?.x ?? 0) - 64 - (372 - (same?.y ?? 0))) < 0.2);
  t.is(below?.y, same?.y);
  t.true((below?.x ?? 0) > (same?.x ?? 0));
});
