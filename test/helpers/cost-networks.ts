// Small random cost networks and tables for tests; and the same costs computed again by plain
// definitions.

import type { CostLayer, CostNetworks } from "../../packages/sharding/search/cost-networks.ts";
import { rawFeaturesOf, tableFeatures } from "../../packages/sharding/search/features.ts";
import { type CostTable, reuseBins } from "../../src/planner/reuse.ts";
import { RandomStream } from "../../src/ports/random.ts";

/** Random networks whose costs grow with columns and ids, and are not just their sums. */
export function drawnNetworks(devices: number, seed: number): CostNetworks {
  const random = new RandomStream(seed, 1);
  const layer = (inputs: number, outputs: number, relu: boolean): CostLayer => ({
    weight: Float32Array.from({ length: inputs * outputs }, () => random.uniform() - 0.3),
    bias: Float32Array.from({ length: outputs }, () => random.uniform()),
    relu,
  });
  const standardOf = (count: number, deviation: number) => {
    return { mean: new Array(count).fill(0), deviation: new Array(count).fill(deviation) };
  };
  const deviation = [...new Array(reuseBins).fill(1), 64, 10, 1e5];
  return {
    devices,
    batchSize: 64,
    features: "published",
    lateMax: 19,
    table: {
      standard: { mean: new Array(tableFeatures).fill(0), deviation },
      layers: [layer(tableFeatures, 6, true), layer(6, 4, true)],
    },
    head: [layer(4, 5, true), layer(5, 1, false)],
    forward: {
      standard: standardOf(2 * devices, 100),
      layers: [layer(2 * devices, 6, true), layer(6, devices, false)],
    },
    backward: {
      standard: standardOf(devices, 100),
      layers: [layer(devices, 6, true), layer(6, devices, false)],
    },
  };
}

/** Random tables of up to about 300,000 rows, of any width that there are costs for. */
export function drawnTables(count: number, seed: number): CostTable[] {
  const random = new RandomStream(seed, 2);
  return Array.from({ length: count }, () => {
    const bins = Array.from({ length: reuseBins }, () => random.uniform());
    const all = bins.reduce((sum, bin) => sum + bin, 0);
    return {
      rows: 100 + random.below(300_000),
      dim: [4, 8, 16, 32, 64, 128][random.below(6)] ?? 4,
      poolingFactor: 30 * random.uniform(),
      bins: bins.map((bin) => bin / all),
    };
  });
}

/** The cost of a plan in milliseconds by definition, without any cache. */
export function plainCost(
  networks: CostNetworks,
  tables: readonly CostTable[],
  placed: readonly (readonly number[])[],
): number {
  const own = placed.map((indices) => indices.map((index) => tables[index] as CostTable));
  const compute = own.map((held) => plainCompute(networks, held));
  const columns = own.map((held) => held.reduce((sum, { dim }) => sum + dim, 0));
  const { forward, backward, lateMax } = networks;
  const back = plain(backward.layers, scaled(columns, backward.standard));
  const before = compute.map((ms, device) => ms + (back[device] ?? 0));
  const first = Math.min(...before);
  const late = before.map((ms) => Math.min(lateMax, ms - first));
  const forwardMs = plain(forward.layers, scaled([...columns, ...late], forward.standard));
  return Math.max(...before.map((ms, device) => ms + (forwardMs[device] ?? 0)));
}

/** The cost of lookup and update of tables on one device, in milliseconds. */
export function plainCompute(networks: CostNetworks, tables: readonly CostTable[]): number {
  if (tables.length === 0) return 0;
  const vectors = tables.map((table) => {
    return plain(networks.table.layers, scaled(rawFeaturesOf(table), networks.table.standard));
  });
  const sum = (vectors[0] ?? []).map((_, i) =>
    vectors.reduce((all, vector) => all + (vector[i] ?? 0), 0),
  );
  return Math.max(0, plain(networks.head, sum)[0] ?? 0);
}

function scaled(
  values: readonly number[],
  { mean, deviation }: { readonly mean: readonly number[]; readonly deviation: readonly number[] },
): number[] {
  return values.map((value, i) => (value - (mean[i] ?? 0)) / (deviation[i] ?? 1));
}

function plain(layers: readonly CostLayer[], inputs: readonly number[]): number[] {
  return layers.reduce<readonly number[]>((x, { weight, bias, relu }) => {
    return [...bias].map((own, o) => {
      const value = x.reduce((sum, xi, i) => sum + (weight[o * x.length + i] ?? 0) * xi, own);
      return relu ? Math.max(0, value) : value;
    });
  }, inputs) as number[];
}

/** The tables after `steps`, each of which halves the columns of the table at its index. */
export function halved(tables: readonly CostTable[], steps: readonly number[]): CostTable[] {
  const all = [...tables];
  for (const step of steps) {
    const table = all[step] as CostTable;
    const half = { ...table, dim: table.dim / 2 };
    all[step] = half;
    all.push(half);
  }
  return all;
}
