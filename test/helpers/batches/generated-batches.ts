// Full batches of generated samples, whose best reachable log loss is far below that of the base
// rate.

import { syntheticOptions } from "../../../src/data/options.ts";
import { Sample } from "../../../src/data/sample.ts";
import { SyntheticSamples } from "../../../src/data/synthetic/synthetic.ts";
import type { WholeBatch } from "../devices/local-devices.ts";

/** The shape of the batches: tables with one id per bag, and dense features. */
export interface GeneratedShape {
  readonly batchSize: number;
  readonly batches: number;
  readonly dense: number;
  readonly tables: readonly { readonly name: string; readonly rows: number }[];
}

export function generatedBatches(shape: GeneratedShape, seed: number): WholeBatch[] {
  const { batchSize, batches, dense, tables } = shape;
  const options = { kind: "synthetic", batchSize, samples: batchSize * batches, dense, seed };
  const generated = new SyntheticSamples(syntheticOptions.parse(options), tables);
  const sample = new Sample({ dense, features: tables.length });
  return Array.from({ length: batches }, (_, index) => {
    const batch = {
      samples: batchSize,
      dense: new Float32Array(dense * batchSize),
      labels: new Float32Array(batchSize),
      lengths: new Int32Array(tables.length * batchSize).fill(1),
      ids: new Int32Array(tables.length * batchSize),
    };
    for (let s = 0; s < batchSize; s++) {
      generated.fill(sample, index * batchSize + s);
      batch.dense.set(sample.dense, dense * s);
      batch.labels[s] = sample.label;
      for (const table of tables.keys()) {
        batch.ids[table * batchSize + s] = sample.ids[table] ?? 0;
      }
    }
    return batch;
  });
}
