// Options of the loss, which is computed from a logit and a label.

import { z } from "zod";
import type { LossRule } from "../kernels/contract/kernels.ts";

/** Schema of `JobOptions.loss`, and of the loss of a task. */
export const lossOptions = z.discriminatedUnion("kind", [
  /** Binary cross-entropy: for labels of two classes, on the logistic function of the logit. */
  z.strictObject({
    kind: z.literal("binaryCrossEntropy"),
    positiveWeight: z
      .number()
      .positive()
      .max(1e6)
      .default(1)
      .describe("Factor of the loss of positive samples, as `pos_weight` in PyTorch."),
    labelSmoothing: z
      .number()
      .min(0)
      .lt(1)
      .default(0)
      .describe(
        "A label y is replaced by y * (1 - labelSmoothing) + labelSmoothing / 2 in the loss.",
      ),
  }),
  /** Squared error: (logit - label)² for numeric labels; the logit itself is the prediction. */
  z.strictObject({ kind: z.literal("mse") }),
]);

/** A validated loss. */
export type LossSpec = LossRule & z.output<typeof lossOptions>;
