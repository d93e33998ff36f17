// The schema of `data.transforms`: the entries, checked against each other and sorted.

import { z } from "zod";
import { inOrder } from "./order.ts";
import { problemsOf } from "./plan.ts";
import { transformOptions } from "./transform-options.ts";

/**
 * Schema of `data.transforms`. It sorts the entries into a canonical order, each after those that
 * it reads, so that jobs that differ only in the order of entries are the same job.
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
