// The optimizer of a bench's or a test's model, with the defaults of a job.

import {
  type SparseOptimizerOptions,
  sparseOptimizerOptions,
} from "../../src/embedding/tables/options.ts";
import { type DenseOptimizerOptions, denseOptimizerOptions } from "../../src/model/options.ts";
import type { Recipe } from "../../src/training/step/device-state.ts";

export function optimizerOf(
  dense: DenseOptimizerOptions,
  sparse: SparseOptimizerOptions,
): Recipe["optimizer"] {
  return {
    dense: denseOptimizerOptions.parse(dense),
    sparse: sparseOptimizerOptions.parse(sparse),
  };
}
