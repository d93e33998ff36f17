// Options of the loss: how a logit and a label become the loss of a sample.

import { z } from "zod";
import type { LossRule } from "../../kernels/contract/kernels.ts";

/** Schema of `JobOptions.loss`, and of the loss of a task. */
export const lossOptions = z.discriminatedUnion("kind", [
  /** Of labels of two classes: the cross-entropy of the logistic function of the logit. */
  z.strictObject({
    kind: z.literal("binaryCrossEntropy"),
    positiveWeight: z
      .number()
      .positive()
      .max(1e6)
      .default(1)
      .describe("Factor of the loss of positive samples, as `pos_weight` of PyTorch."),
    labelSmoothing: z
      .number()
      .min(0)
      .lt(1)
      .default(0)
      .describe("Labels become y * (1 - labelSmoothing) + labelSmoothing / 2."),
  }),
  /** Of labels that are numbers: (logit - label)², and the logit itself is the prediction. */
  z.strictObject({ kind: z.literal("mse") }),
]);

/** The loss after its checks. */
export type LossSpec = LossRule & z.output<typeof lossOptions>;

export type LossOptions = z.input<typeof lossOptions>;

/** What of the loss decides the trained bits; undefined of the usual one, as in jobs of before. */
export function lossIdentity(loss: LossSpec): LossSpec | undefined {
  if (loss.kind === "mse") return loss;
  const { positiveWeight, labelSmoothing } = loss;
  return positiveWeight === 1 && labelSmoothing === 0 ? undefined : loss;
}
