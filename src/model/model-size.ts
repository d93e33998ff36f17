// What a model costs for each sample, without its tables: for whoever compares architectures.

import { checkOptions } from "../ports/check-options.ts";
import { graphOf } from "./model.ts";
import { type ModelOptions, modelOptions } from "./options.ts";

export interface ModelSize {
  /** Floating-point operations of a sample's forward pass, two for each multiply-add. */
  readonly flops: number;
  /** Trained parameters that are in no table. */
  readonly denseParameters: number;
}

/** The size of a model. @throws InvalidOptionError where its options are wrong */
export function modelSize(model: ModelOptions): ModelSize {
  const { products, layout } = graphOf(checkOptions(modelOptions, model, "model"));
  return { flops: 2 * products, denseParameters: layout.trained };
}
