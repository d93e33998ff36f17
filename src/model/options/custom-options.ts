// Options of a model of the user's own (../custom/custom-model.ts).

import { z } from "zod";
import { pathOption } from "../../ports/option-schemas.ts";
import {
  commonOptions,
  commonProblems,
  type ModelOptionsOf,
  type Problem,
} from "./common-options.ts";
import { taskOptions, taskProblems, tasksMax } from "./task-options.ts";

// What drops units or normalises is the module's to say.
const { dropout: _dropout, batchNorm: _batchNorm, ...shared } = commonOptions;

/** A model of the user's own: a module that composes blocks, and the options that it takes. */
export const customOptions = z.strictObject({
  kind: z.literal("custom"),
  ...shared,
  path: pathOption("module", z.string().min(1)).describe(
    "`custom`: the module of the model, in TypeScript or JavaScript; in a job file relative to that file; over NATS only where the cluster allows it.",
  ),
  options: z
    .record(z.string(), z.unknown())
    .default({})
    .describe("What the module's `build` takes: options of the module's own schema."),
  tasks: z
    .array(taskOptions)
    .min(1)
    .max(tasksMax)
    .optional()
    .describe("One for each label of the data, in their order. Left out: the model has one logit."),
  sha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/, "64 hexadecimal digits")
    .optional()
    .describe(
      "`custom`: SHA-256 of the module's contents; any other module is refused; left out, that of the module when the job is submitted; a part of the arithmetic, which the path is not.",
    ),
});

export type CustomOptions = ModelOptionsOf<typeof customOptions>;
/** A model of the user's own after its checks, the module's aside. */
export type CustomSpec = z.output<typeof customOptions>;

/** Options that contradict each other, as far as they say without the module. */
export function customProblems(model: CustomSpec): Problem[] {
  return [...commonProblems(model), ...taskProblems(model.tasks ?? [])];
}
