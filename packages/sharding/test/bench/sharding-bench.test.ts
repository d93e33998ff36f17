// The bench of learned sharding: the picture of packages/sharding/docs/learned-sharding.md and the
// rows that it shows, and exchanges over simulated links against their definition.

import { readFileSync } from "node:fs";
import test from "ava";
import { drawnNetworks, drawnTables } from "../../../../test/helpers/cost-networks.ts";
import { overLinks } from "../../bench/machine.ts";
import { drawPredictions, files, plansIn, readRows } from "../../bench/picture.ts";
import { backwardCosts, forwardCosts, setCost } from "../../search/cost-networks.ts";

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
  // The point is equally far from the left and the bottom axis.
  t.true(Math.abs((same?.x ?? 0) - 64 - (372 - (same?.y ?? 0))) < 0.2);
  t.is(below?.y, same?.y);
  t.true((below?.x ?? 0) > (same?.x ?? 0));
});

test("a device's link is busy for the larger of its sent and received bytes", (t) => {
  const measured = drawnNetworks(2, 1);
  const bytesPerSecond = 1e6;
  for (const columns of [
    [64, 0, 0, 0],
    [128, 32, 64, 4],
    [10, 10, 10, 10],
  ]) {
    const networks = overLinks(measured, 4, { bytesPerSecond });
    // 64 samples, 16 per device.
    const all = columns.reduce((sum, own) => sum + own, 0);
    const expected = columns.map((own) => {
      const [sent, received] = [3 * own * 16 * 4, (all - own) * 16 * 4];
      return (1000 * Math.max(sent, received)) / bytesPerSecond;
    });
    const late = [5, 0, 3, 1];
    for (const is of [backwardCosts(networks, columns), forwardCosts(networks, columns, late)]) {
      for (const [device, ms] of expected.entries()) {
        t.true(Math.abs((is[device] ?? 0) - ms) < 1e-5 * ms, `${columns}: ${is}, not ${expected}`);
      }
    }
    const tables = drawnTables(3, 1);
    t.is(setCost(networks, tables), setCost(measured, tables));
  }
});
