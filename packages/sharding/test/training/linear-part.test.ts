// The linear part of costs: fitted where costs are linear, and folded into a network, which then
// outputs the sum of network and linear part.

import test from "ava";
import { RandomStream } from "../../../../src/ports/random.ts";
import { drawnNetworks, drawnTables } from "../../../../test/helpers/cost-networks.ts";
import { setCost } from "../../search/cost-networks.ts";
import { featuresOf, standardised } from "../../search/features.ts";
import { fitLinear, linearCost, withLinear } from "../../training/linear-part.ts";

test("the linear fit recovers costs that add up from table to table", (t) => {
  const random = new RandomStream(1, 5);
  const weight = [3, -2, 0.5];
  const samples = Array.from({ length: 50 }, () => {
    const tables = Array.from({ length: 1 + random.below(5) }, () => {
      return weight.map(() => random.normal());
    });
    return { tables, milliseconds: 0 };
  }).map(({ tables }) => ({
    tables,
    milliseconds: linearCost({ weight, ofTable: 9, ofSet: 4 }, tables),
  }));
  const found = fitLinear(samples);
  for (const [i, value] of [...weight, 9, 4].entries()) {
    const is = [...found.weight, found.ofTable, found.ofSet][i] ?? 0;
    t.true(Math.abs(is - value) < 0.01, `${i}: ${is}, not ${value}`);
  }
});

test("a network with a folded linear part returns the sum of network and part", (t) => {
  const networks = drawnNetworks(2, 3);
  const { standard, layers } = networks.table;
  const linear = {
    weight: standard.mean.map((_, i) => (i % 3) - 1.2),
    ofTable: -0.7,
    ofSet: 5,
  };
  const folded = withLinear({ table: layers, head: networks.head }, linear);
  const both = { ...networks, table: { standard, layers: folded.table }, head: folded.head };
  const tables = drawnTables(7, 2);
  for (const own of [tables.slice(0, 1), tables.slice(1, 4), tables]) {
    const rows = own.map((table) => standardised(featuresOf(table, "published", 64), standard));
    const [sum, part] = [setCost(networks, own), linearCost(linear, rows)];
    const is = setCost(both, own);
    // Weights are float32.
    const off = Math.abs(is - Math.max(0, sum + part));
    t.true(off < 1e-5 * (Math.abs(sum) + Math.abs(part)), `${is}, not ${sum} + ${part}`);
    t.true(is > 0, "the sum is above 0, where ReLU changes nothing");
  }
});
