// The benchmark configurations a, b and c: what each stresses is said in bench/README.md.

import type { DensePrecision } from "../src/kernels/contract/kernels.ts";
import { type ModelSpec, modelOptions } from "../src/model/options.ts";

export interface Configuration {
  readonly model: ModelSpec;
  /** Ids of every bag. */
  readonly lookups: number;
  /** Floating-point operations of a sample, forward and backward: of the dense layers' products. */
  readonly layerFlop: number;
  /** The same, of the interaction. */
  readonly interactionFlop: number;
  /** Inputs and outputs of every dense layer, bottom then top. */
  readonly layers: readonly (readonly [number, number])[];
}

const shapes = {
  a: {
    tables: 26,
    rows: 10_000,
    dim: 16,
    lookups: 1,
    dense: 13,
    bottom: [512, 256, 64, 16],
    top: [512, 256, 1],
  },
  b: {
    tables: 26,
    rows: 200_000,
    dim: 64,
    lookups: 1,
    dense: 13,
    bottom: [512, 256, 64],
    top: [512, 512, 256, 1],
  },
  c: {
    tables: 8,
    rows: 1_000_000,
    dim: 64,
    lookups: 100,
    dense: 512,
    bottom: [512, 64],
    top: [1024, 1024, 1024, 1],
  },
} as const;

export type ConfigurationName = keyof typeof shapes;

export const configurationNames = Object.keys(shapes) as ConfigurationName[];

export function configuration(
  name: ConfigurationName,
  precision: DensePrecision = "float32",
): Configuration {
  const { tables, rows, dim, lookups, dense, bottom, top } = shapes[name];
  const model = modelOptions.parse({
    kind: "dlrm",
    dense,
    tables: Array.from({ length: tables }, (_, i) => ({ name: `T${i}`, rows, dim })),
    bottom: [...bottom],
    top: [...top],
    precision,
  });
  const features = tables + 1;
  const pairs = (features * (features - 1)) / 2;
  const layers = [...widths([dense, ...bottom]), ...widths([dim + pairs, ...top])];
  // Forward, input gradient and weight gradient of each layer; the first has no input gradient.
  const macs = layers.reduce((sum, [inputs, outputs], i) => {
    return sum + (i === 0 ? 2 : 3) * inputs * outputs;
  }, 0);
  return { model, lookups, layerFlop: 2 * macs, interactionFlop: 6 * pairs * dim, layers };
}

function widths(sizes: readonly number[]): [number, number][] {
  return sizes.slice(1).map((outputs, i) => [sizes[i] ?? 0, outputs]);
}
