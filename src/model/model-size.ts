// The cost of a model per sample, without its tables, to compare architectures.

import { checkOptions } from "../ports/check-options.ts";
import { graphOf } from "./model.ts";
import { type ModelOptions, modelOptions } from "./options.ts";

export interface ModelSize {
  /** Floating-point operations of a sample's forward pass, two for each multiply-add. */
  readonly flops: number;
  /** Trained parameters outside of tables. */
  readonly denseParameters: number;
}

/** Computes the size of a model. @throws InvalidOptionError if its options are wrong */
export function modelSize(model: ModelOptions): ModelSize {
  const { products, layout } = graphOf(checkOptions(modelOptions, model, "model"));
  return { flops: 2 * products, denseParameters: layout.trained };
}
