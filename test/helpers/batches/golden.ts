// Reads the golden trainings (PyTorch) of test/fixtures/golden, whose README describes their
// layout.

import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { gunzipSync } from "node:zlib";
import type { LossSpec } from "../../../src/model/loss-options.ts";
import { renamed } from "./golden-names.ts";

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
  readonly name: string;
  readonly rows: readonly number[];
  readonly dim: number;
  /** The count of dense features of a sample. */
  readonly dense: number;
  /** The model options, if the manifest has them as a job would. */
  readonly options:
    | { readonly kind: string; readonly tasks?: readonly { readonly missing?: string }[] }
    | undefined;
  /** The loss of the job; undefined: the default loss. */
  readonly loss: LossSpec | undefined;
  /**
   * The clipping limit of each gradient element, of rows and of dense parameters; undefined: none.
   */
  readonly clip: number | undefined;
  readonly bottom: readonly number[];
  readonly top: readonly number[];
  /** The layers of a Wukong; `k` null: full rank. */
  readonly layers: readonly {
    readonly nF: number;
    readonly nL: number;
    readonly k: number | null;
    readonly hidden: readonly number[];
  }[];
  readonly batch: number;
  readonly steps: number;
  readonly testBatches: number;
  readonly optimizers: readonly GoldenOptimizer[];
  readonly names: readonly string[];
  tensor(name: string): Float64Array;
}

/** The decompressed tensors of a golden; its manifest has the offset of each. */
export function goldenBytes(path: string): Uint8Array {
  return gunzipSync(readFileSync(path));
}

export function readGolden(name: string): Golden {
  const manifest = JSON.parse(readFileSync(`${goldenFolder}/${name}.json`, "utf8"));
  const bytes = goldenBytes(join(dirname(`${goldenFolder}/${name}`), manifest.file));
  const entries: [string, TensorEntry][] = Object.entries(manifest.tensors);
  const tensors = new Map(
    entries.map(([key, entry]) => {
      const { name, isTransposed } = renamed(key);
      return [name, { ...entry, isTransposed }];
    }),
  );
  return {
    name,
    rows: manifest.model.rows,
    dim: manifest.model.dim,
    dense: manifest.model.dense ?? manifest.model.bottom[0],
    options: manifest.model.options,
    loss: manifest.model.loss,
    clip: manifest.model.clip,
    bottom: manifest.model.bottom ?? [],
    top: manifest.model.top ?? manifest.model.final ?? [],
    layers: manifest.model.layers ?? [],
    batch: manifest.batch,
    steps: manifest.steps,
    testBatches: manifest.test_batches,
    optimizers: manifest.optimizers,
    names: [...tensors.keys()],
    tensor(key) {
      const entry = tensors.get(key);
      if (entry === undefined) throw new RangeError(`The golden has no tensor ${key}`);
      const memory = Uint8Array.from(bytes.subarray(entry.offset, entry.offset + entry.bytes));
      const arrays = { f32: Float32Array, f64: Float64Array, i32: Int32Array, u8: Uint8Array };
      const values = Float64Array.from(new arrays[entry.dtype](memory.buffer));
      return entry.isTransposed ? transposed(values, entry.shape) : values;
    },
  };
}

/** Transposes a matrix (M,N) to (N,M). */
function transposed(values: Float64Array, [rows = 0, columns = 0]: readonly number[]) {
  return values.map((_, i) => values[(i % rows) * columns + Math.floor(i / rows)] ?? Number.NaN);
}
