// Reads the golden trainings (PyTorch) of test/fixtures/golden, whose README has their layout.

import { readFileSync } from "node:fs";

/** Folder of the goldens. */
export const goldenFolder = "test/fixtures/golden";

interface TensorEntry {
  readonly dtype: "f32" | "f64" | "i32" | "u8";
  readonly shape: readonly number[];
  readonly offset: number;
  readonly bytes: number;
}

export interface GoldenOptimizer {
  readonly name: string;
  readonly kind: "sgd" | "adagrad" | "rowwise_adagrad";
  readonly lr: number;
  readonly eps?: number;
  readonly initial_accumulator?: number;
  readonly noise_loss_dev: number;
  readonly noise_weight_dev: number;
  readonly test_auc: number;
}

export interface Golden {
  readonly rows: readonly number[];
  readonly dim: number;
  readonly bottom: readonly number[];
  readonly top: readonly number[];
  readonly batch: number;
  readonly steps: number;
  readonly testBatches: number;
  readonly optimizers: readonly GoldenOptimizer[];
  readonly names: readonly string[];
  tensor(name: string): Float64Array;
}

/** The golden of that name. */
export function readGolden(name: string): Golden {
  const manifest = JSON.parse(readFileSync(`${goldenFolder}/${name}.json`, "utf8"));
  const bytes = readFileSync(`${goldenFolder}/${manifest.file}`);
  const tensors: Record<string, TensorEntry> = manifest.tensors;
  return {
    rows: manifest.model.rows,
    dim: manifest.model.dim,
    bottom: manifest.model.bottom,
    top: manifest.model.top,
    batch: manifest.batch,
    steps: manifest.steps,
    testBatches: manifest.test_batches,
    optimizers: manifest.optimizers,
    names: Object.keys(tensors),
    tensor(key) {
      const entry = tensors[key];
      if (entry === undefined) throw new RangeError(`The golden has no tensor ${key}`);
      const memory = Uint8Array.from(bytes.subarray(entry.offset, entry.offset + entry.bytes));
      const arrays = { f32: Float32Array, f64: Float64Array, i32: Int32Array, u8: Uint8Array };
      return Float64Array.from(new arrays[entry.dtype](memory.buffer));
    },
  };
}
