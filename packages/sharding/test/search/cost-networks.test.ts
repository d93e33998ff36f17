// Predictions of cost networks: they equal their definition for any state of the cache and any
// order of tables.

import test from "ava";
import {
  drawnNetworks,
  drawnTables,
  plainCompute,
} from "../../../../test/helpers/cost-networks.ts";
import {
  type CostLayer,
  type CostNetworks,
  computeCost,
  forwardCosts,
  planCost,
  tableVector,
} from "../../search/cost-networks.ts";
import { DeviceStates } from "../../search/device-states.ts";
import { rawFeaturesOf, standardised, standardOf } from "../../search/features.ts";
import { tableParts } from "../../search/parts.ts";

test("a table has twenty features, with its bins in the order of the published names", (t) => {
  const bins = Array.from({ length: 17 }, (_, bin) => bin / 136);
  const features = rawFeaturesOf({ rows: 1000, dim: 64, poolingFactor: 2.5, bins });
  const order = [0, 1, 10, 11, 12, 13, 14, 15, 16, 2, 3, 4, 5, 6, 7, 8, 9];
  t.deepEqual(features, [...order.map((bin) => bin / 136), 64, 2.5, 1000]);
});

test("inputs are standardised by the mean and the deviation of a sample", (t) => {
  const standard = standardOf([
    [1, 5],
    [2, 5],
    [6, 5],
  ]);
  t.deepEqual(standard.mean, [3, 5]);
  t.is(standard.deviation[0], Math.fround(Math.sqrt((4 + 1 + 9) / 2) + 1e-6));
  t.is(standard.deviation[1], Math.fround(1e-6));
  t.deepEqual(standardised([3, 5], standard), [0, 0]);
});

test("a device's cost is computed from the sum of its tables' vectors, in any order", (t) => {
  const networks = drawnNetworks(2, 1);
  const tables = drawnTables(6, 1);
  const states = new DeviceStates(networks);
  const known = tableParts(tables).map((part) => states.part(part));
  const placed = (order: readonly number[]) => {
    return order.reduce((state, i) => {
      const table = known[i];
      return table === undefined ? state : states.with(state, table);
    }, states.empty);
  };
  const state = placed([0, 1, 2, 3, 4, 5]);
  t.true(Math.abs(state.compute - plainCompute(networks, tables)) < 1e-9 * state.compute);
  t.true(Math.abs(placed([5, 3, 1, 0, 2, 4]).compute - state.compute) < 1e-9 * state.compute);
  t.is(
    state.columns,
    tables.reduce((sum, { dim }) => sum + dim, 0),
  );
  const { computed } = states.counts;
  t.is(placed([0, 1, 2, 3, 4, 5]), state);
  t.is(states.counts.computed, computed, "a cached state is not computed again");
  const [first] = tables;
  if (first !== undefined) {
    t.is(known[0]?.cost, computeCost(networks, tableVector(networks, first)));
  }
});

/** A layer y = sum of w x + b, with one output per row of weights. */
function linear(weight: readonly number[], bias: readonly number[]): CostLayer {
  return { weight: Float32Array.from(weight), bias: Float32Array.from(bias), relu: false };
}

const plainStandard = (count: number) => {
  return { mean: new Array(count).fill(0), deviation: new Array(count).fill(1) };
};

/**
 * Networks by hand. Backward: a millisecond per column of the device. Forward: ten milliseconds,
 * and half of the device's lateness.
 */
const byHand: CostNetworks = {
  devices: 2,
  batchSize: 64,
  features: "published",
  lateMax: 4,
  table: { standard: plainStandard(20), layers: [] },
  head: [],
  backward: { standard: plainStandard(2), layers: [linear([1, 0, 0, 1], [0, 0])] },
  forward: {
    standard: plainStandard(4),
    layers: [linear([0, 0, 0.5, 0, 0, 0, 0, 0.5], [10, 10])],
  },
};

test("a plan costs the time of its slowest device: gradients, tables and forward wait", (t) => {
  // Before the vectors: 5 + 1 and 6 + 2 ms. Device 1 is 2 ms late, which costs it 1 ms.
  const loads = [
    { compute: 5, columns: 1 },
    { compute: 6, columns: 2 },
  ];
  t.is(planCost(byHand, loads), 8 + 10 + 1);
});

test("networks see no lateness beyond the largest one measured", (t) => {
  t.deepEqual([...forwardCosts(byHand, [1, 1], [0, 3])], [10, 11.5]);
  t.deepEqual([...forwardCosts(byHand, [1, 1], [0, 4000])], [10, 12]);
});
