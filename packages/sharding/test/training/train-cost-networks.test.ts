// The training of cost networks: ordinary runs, with the same result on any number of threads. In
// plans, the networks have the predictions of the trained models.

import { join } from "node:path";
import { Cluster } from "../../../../actors/cluster/cluster.ts";
import { RandomStream } from "../../../../src/ports/random.ts";
import { loadModel } from "../../../../storage/model/load-model.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { drawnNetworks, drawnTables } from "../../../../test/helpers/cost-networks.ts";
import { testAll, testIf } from "../../../../test/helpers/needs.ts";
import { computeCost, tableVector } from "../../search/cost-networks.ts";
import { rawFeaturesOf, standardOf } from "../../search/features.ts";
import {
  columnNames,
  type MeasuredCosts,
  mapped,
  partsOf,
  setSample,
} from "../../training/cost-samples.ts";
import { trainNetwork } from "../../training/network-job.ts";
import { trainCostNetworks } from "../../training/train-cost-networks.ts";

/** Costs that grow with ids and columns, for sets of up to four tables. */
function drawnCosts(samples: number, devices: number): MeasuredCosts {
  const random = new RandomStream(1, 3);
  const pool = drawnTables(100, 1);
  const columnsOf = () => Array.from({ length: devices }, () => 4 * random.below(100));
  const compute = Array.from({ length: samples }, () => {
    const tables = pool.filter((_, i) => i % 25 === random.below(25)).slice(0, 4);
    const [first] = pool;
    const own = tables.length === 0 && first !== undefined ? [first] : tables;
    return {
      tables: own,
      milliseconds: own.reduce((sum, one) => sum + one.poolingFactor * (20 + one.dim), 0) / 10,
    };
  });
  const exchange = Array.from({ length: samples }, () => {
    const columns = columnsOf();
    const late = columns.map(() => random.below(10));
    const widest = Math.max(...columns);
    return {
      columns,
      late,
      forward: late.map((own) => widest / 10 + Math.max(...late) - own),
      backward: columns.map((own) => (widest + own) / 10),
    };
  });
  return { devices, batchSize: 64, compute, exchange };
}

testIf(testAll).serial(
  "cost networks learn linear costs, with the same weights on one thread and on two",
  async (t) => {
    const costs = drawnCosts(400, 2);
    const { networks, reports } = await trainCostNetworks(costs, { epochs: 500 });
    for (const [name, { samples, testMse, testVariance, digest }] of Object.entries(reports)) {
      t.is(samples, 400);
      t.true(testMse < 0.3 * testVariance, `${name}: ${testMse} of ${testVariance}`);
      t.regex(digest, /^sha256:[0-9a-f]{64}$/);
    }
    t.is(networks.lateMax, 9);
    const short = await trainCostNetworks(costs, { epochs: 5 });
    t.deepEqual(await trainCostNetworks(costs, { epochs: 5, threads: 2 }), short);
  },
);

testIf(testAll).serial("a plan's cost network predicts as the run's own model does", async (t) => {
  const home = startDirectory(t);
  const { compute } = drawnCosts(100, 2);
  const parts = partsOf(compute, 1);
  const standard = standardOf(compute.flatMap(({ tables }) => tables.map(rawFeaturesOf)));
  const samples = mapped(parts, (cost) => setSample(cost, 5, rawFeaturesOf, standard));
  await using cluster = await Cluster.start({ devices: 1 });
  const training = { cluster, home: join(home, "run"), name: "test", seed: 1, epochs: 5 };
  const kind = {
    dense: 5 * 21,
    options: { kind: "set", tables: 5, table: [12, 6], head: [8, 1] },
  };
  const { layersOf, unit, digest } = await trainNetwork(training, samples, kind);
  const seeded = { ...training, home: join(home, "seeded"), seed: 2 };
  t.not((await trainNetwork(seeded, samples, kind)).digest, digest, "the seed draws weights");
  const networks = {
    ...drawnNetworks(2, 1),
    table: { standard, layers: layersOf("table", true) },
    head: layersOf("head", false),
  };
  await using model = await loadModel(training.home);
  for (const [i, { tables }] of parts.test.entries()) {
    const sum = new Float64Array(6);
    for (const table of tables) {
      for (const [at, value] of tableVector(networks, table).entries()) {
        sum[at] = (sum[at] ?? 0) + value;
      }
    }
    const inputs = samples.test[i]?.inputs ?? [];
    const names = columnNames("x", inputs.length);
    const record = Object.fromEntries(names.map((name, at) => [name, inputs[at] ?? 0]));
    const [predicted = Number.NaN] = await model.predict([record]);
    const ours = computeCost(networks, sum);
    t.true(Math.abs(ours - Math.max(0, unit * predicted)) < 1e-3 * unit, `${ours}`);
  }
});
