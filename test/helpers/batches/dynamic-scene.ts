// A job with three tables of dynamic ids, each with its own admission and eviction policy, and
// batches whose ids come and go.

import { optimizerOf } from "../../../bench/step/optimizers.ts";
import { dynamicOptions } from "../../../src/embedding/tables/dynamic-options.ts";
import type { TableOptions } from "../../../src/embedding/tables/options.ts";
import { modelOptions } from "../../../src/model/options.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import type { TopologyInput } from "../../../src/training/topology/topology.ts";
import type { WholeBatch } from "../devices/local-devices.ts";
import { edges, halvesOf, mix64 } from "./wide-ids.ts";

export const samples = 16;
export const steps = 12;
export const dense = 2;
export const idsMax = [4, 2, 3];
export const seed = 7;

export const recipe = {
  optimizer: optimizerOf({ kind: "adam" }, { kind: "adam", learningRate: 0.05 }),
  seed,
};

/** Bags of ids: [feature][sample]. Ids of much earlier steps do not return. */
export type Bags = readonly (readonly (readonly bigint[])[])[];

function drawBags(step: number): Bags {
  const stream = new RandomStream(3, 77, step);
  const draw = (): bigint => {
    const kind = stream.below(6);
    if (kind === 0) return edges[stream.below(edges.length)] ?? 0n;
    if (kind < 4) return BigInt(stream.below(8)) - 4n;
    return BigInt.asIntN(64, mix64(BigInt(6 * step + stream.below(20))));
  };
  return idsMax.map((most) =>
    Array.from({ length: samples }, () => Array.from({ length: stream.below(most + 1) }, draw)),
  );
}

export const bagsOf = Array.from({ length: steps + 2 }, (_, step) => drawBags(step));

/** The batch of these bags, with both halves of ids, or with rows that were assigned beforehand. */
export function batchOf(step: number, bags: Bags): WholeBatch {
  const stream = new RandomStream(5, 78, step);
  const halves = bags.flat(2).map(halvesOf);
  return {
    samples,
    dense: Float32Array.from({ length: samples * dense }, () => stream.normal()),
    labels: Float32Array.from({ length: samples }, () => stream.below(2)),
    lengths: Int32Array.from(bags.flat(), (bag) => bag.length),
    ids: Int32Array.from(halves, ([low]) => low),
    highs: Int32Array.from(halves, ([, high]) => high),
  };
}

export const batches = bagsOf.slice(0, steps).map((bags, step) => batchOf(step, bags));
export const heldOut = bagsOf.slice(steps).map((bags, i) => batchOf(steps + i, bags));

/** Input of three tables with these options, in this order, besides their names. */
export function inputOf(
  tables: readonly Partial<TableOptions>[],
  more: Partial<TopologyInput> = {},
): TopologyInput {
  const model = modelOptions.parse({
    kind: "dlrm",
    dense,
    tables: tables.map((table, i) => ({ name: `T${i}`, rows: 24, dim: 6, ...table })),
    bottom: [5, 6],
    top: [4, 1],
  });
  return { model, batchSize: samples, slices: 8, idsMax, ...more };
}

const specs = [
  { eviction: { kind: "lfu", free: 0.4 }, everySteps: 4 },
  {
    admission: { kind: "frequency", count: 2 },
    eviction: { kind: "age", steps: 2 },
    everySteps: 3,
  },
  { admission: { kind: "probability", probability: 0.4 }, everySteps: 5 },
].map((spec) => dynamicOptions.parse(spec));

export const tables: readonly Partial<TableOptions>[] = [
  { dynamic: specs[0], idBits: 64, rowBlocks: 4, pooling: "mean" },
  { dynamic: specs[1], idBits: 64, rowBlocks: 2, precision: "float16" },
  { dynamic: specs[2], idBits: 64, pooling: "mean" },
];
