// The schema of `data.transforms`: the entries, checked to fit together and brought in order.

import { z } from "zod";
import { inOrder } from "./order.ts";
import { problemsOf } from "./plan.ts";
import { transformOptions } from "./transform-options.ts";

/**
 * Schema of `data.transforms`. The entries come out in an order that follows from them alone, each
 * behind those that it reads: two jobs that write them in another order are one job.
 */
export const transformsOptions = z
  .array(transformOptions)
  .min(1)
  .max(65_536)
  .superRefine((transforms, context) => {
    for (const { path, error, input: given } of problemsOf(transforms)) {
      context.addIssue({ code: "custom", path, message: error, input: given });
    }
  })
  .transform((transforms) => inOrder(transforms));
