// The benchmark configurations a, b and c (DLRM), d (DLRM-DCNv2) and w (Wukong). bench/README.md
// says what each stresses.

import type { DensePrecision } from "../src/kernels/contract/kernels.ts";
import { graphOf } from "../src/model/model.ts";
import { type ModelSpec, modelOptions } from "../src/model/options.ts";

export interface Configuration {
  readonly model: ModelSpec;
  /** Ids of every bag. */
  readonly lookups: number;
  /** Floating-point operations of a sample in the dense layers' products, forward and backward. */
  readonly layerFlop: number;
  /** The same of products outside layers: interactions, and products of each sample's matrices. */
  readonly interactionFlop: number;
  /** Inputs and outputs of every dense layer, in the order of their parameters. */
  readonly layers: readonly (readonly [number, number])[];
}

const layer = { interacted: 16, compressed: 16, rank: 24, hidden: [512] };

const shapes = {
  a: {
    tables: 26,
    rows: 10_000,
    dim: 16,
    lookups: 1,
    model: { kind: "dlrm", dense: 13, bottom: [512, 256, 64, 16], top: [512, 256, 1] },
  },
  b: {
    tables: 26,
    rows: 200_000,
    dim: 64,
    lookups: 1,
    model: { kind: "dlrm", dense: 13, bottom: [512, 256, 64], top: [512, 512, 256, 1] },
  },
  c: {
    tables: 8,
    rows: 1_000_000,
    dim: 64,
    lookups: 100,
    model: { kind: "dlrm", dense: 512, bottom: [512, 64], top: [1024, 1024, 1024, 1] },
  },
  d: {
    tables: 26,
    rows: 200_000,
    dim: 64,
    lookups: 1,
    model: {
      kind: "dcnV2",
      dense: 13,
      bottom: [512, 256, 64],
      crossLayers: 3,
      rank: 256,
      top: [512, 512, 256, 1],
    },
  },
  w: {
    tables: 26,
    rows: 200_000,
    dim: 64,
    lookups: 1,
    model: { kind: "wukong", dense: 13, bottom: [512, 64], layers: [layer, layer], top: [256, 1] },
  },
} as const;

export type ConfigurationName = keyof typeof shapes;

export const configurationNames = Object.keys(shapes) as ConfigurationName[];

export function configuration(
  name: ConfigurationName,
  precision: DensePrecision = "float32",
): Configuration {
  const { tables, rows, dim, lookups, model: own } = shapes[name];
  const model = modelOptions.parse({
    ...own,
    tables: Array.from({ length: tables }, (_, i) => ({ name: `T${i}`, rows, dim })),
    precision,
  });
  const { nodes, dense, products } = graphOf(model);
  let [layerProducts, layerFlop] = [0, 0];
  const layers: [number, number][] = [];
  for (const node of nodes) {
    const [weight] = node.parameters ?? [];
    const [outputs = 0, inputs = 0] = weight?.shape ?? [];
    const [input] = node.inputs;
    // A layer has as many inputs as its weight has columns; a matrix shared by samples that mixes
    // vectors does not.
    if (weight?.shape.length !== 2 || input?.shape.at(-1) !== inputs) continue;
    layers.push([inputs, outputs]);
    layerProducts += node.products ?? 0;
    // Forward, input gradient and weight gradient; dense features need no gradient.
    layerFlop += 2 * (input.node === dense?.node ? 2 : 3) * inputs * outputs;
  }
  return { model, lookups, layerFlop, interactionFlop: 6 * (products - layerProducts), layers };
}
