// Options of a custom model (custom-model.ts).

import { z } from "zod";
import { pathOption } from "../../ports/option-schemas.ts";
import { commonOptions, commonProblems, type Problem } from "../kinds/common-options.ts";
import { taskOptions, taskProblems, tasksMax } from "../kinds/multi-task-options.ts";

// The module itself decides on dropout and normalisation.
const { dropout: _dropout, batchNorm: _batchNorm, ...shared } = commonOptions;

/** A custom model: a module that composes blocks, and the module's own options. */
export const customOptions = z.strictObject({
  kind: z.literal("custom"),
  ...shared,
  path: pathOption("module", z.string().min(1)).describe(
    "`custom`: path of the model's module, in TypeScript or JavaScript; in a job file, relative to that file. Over NATS, only modules in a `--model-root` of the cluster are allowed.",
  ),
  options: z
    .record(z.string(), z.unknown())
    .default({})
    .describe(
      "`custom`: options that the module's `build` receives, checked by the module's own schema.",
    ),
  tasks: z
    .array(taskOptions)
    .min(1)
    .max(tasksMax)
    .optional()
    .describe(
      "`custom`: the tasks, one for each label of the data, in the order of the labels. Left out: the model has one logit.",
    ),
  sha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/, "64 hexadecimal digits")
    .optional()
    .describe(
      "`custom`: SHA-256 of the module's contents; another module is refused. Left out: filled in when the job is submitted. The hash is a part of the arithmetic, the path is not.",
    ),
});

/** A custom model, validated except for its module. */
export type CustomSpec = z.output<typeof customOptions>;

/** Contradictions between options that can be found without loading the module. */
export function customProblems(model: CustomSpec): Problem[] {
  return [...commonProblems(model), ...taskProblems(model.tasks ?? [])];
}
