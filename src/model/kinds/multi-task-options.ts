// Options of models with several tasks (multi-task.ts): shared bottom, MMoE, PLE and ESMM.

import { z } from "zod";
import { visibleName } from "../../data/column-name-options.ts";
import { missingLabel } from "../../data/column-options.ts";
import { lossOptions } from "../loss-options.ts";
import {
  commonOptions,
  commonProblems,
  firstTwice,
  type Problem,
  widths,
} from "./common-options.ts";

/** Number of experts of one kind: shared by all tasks, or of one task. */
const experts = z
  .int()
  .min(1)
  .max(64)
  .describe("Number of experts: MLPs whose outputs the gates of the tasks mix.");

/** Options that the tasks of all models share. */
export const taskOptions = z.strictObject({
  name: visibleName.describe(
    "Name of the label that the task predicts; the tasks are in the order of the data's labels.",
  ),
  loss: lossOptions
    .optional()
    .describe("Loss of the task, computed from its logit and label. Left out: the job's `loss`."),
  missing: missingLabel
    .optional()
    .describe(
      "How rows without this label are handled: `mask`, the task has no loss and no metric on them, and the other tasks train; `negative`, the label is 0. Left out: they are bad lines.",
    ),
  weight: z.number().positive().default(1).describe("Factor of the task's loss in the model's."),
});

/** Most tasks of a model. */
export const tasksMax = 16;

const towerOptions = taskOptions.extend({
  given: visibleName
    .optional()
    .describe(
      "`sharedBottom`, `mmoe`, `ple`, `esmm`: an earlier task whose label must be 1 for this label to be 1, such as the click before a purchase. The tower then predicts the conditional probability, and the task's prediction is the product of both probabilities. Left out: none, except that the second task of `esmm` is given the first.",
    ),
  tower: widths
    .default([])
    .describe(
      "`sharedBottom`, `mmoe`, `ple`, `esmm`: widths of the hidden layers of the task's tower, whose output is the logit.",
    ),
});

const multiTaskOptions = {
  ...commonOptions,
  tasks: z
    .array(towerOptions)
    .min(1)
    .max(tasksMax)
    .describe("The tasks, one for each label of the data, in the order of the labels."),
};

const gatedOptions = {
  ...multiTaskOptions,
  expert: widths.min(1).describe("`mmoe`, `ple`: widths of an expert's layers."),
  gate: widths
    .default([])
    .describe(
      "`mmoe`, `ple`: widths of the hidden layers of a gate, whose output is a weight for each expert.",
    ),
};

/** Shared bottom: one MLP for all tasks, followed by a tower for each task (Caruana 1997). */
export const sharedBottomOptions = z.strictObject({
  kind: z.literal("sharedBottom"),
  ...multiTaskOptions,
  shared: widths.min(1).describe("`sharedBottom`: widths of the layers that all tasks share."),
});

/** MMoE: all tasks share the experts; each task mixes them by its own gate. */
export const mmoeOptions = z.strictObject({
  kind: z.literal("mmoe"),
  ...gatedOptions,
  /** Experts that all tasks mix. */
  experts,
});

/** PLE: levels of experts, some shared by all tasks, some per task. */
export const pleOptions = z.strictObject({
  kind: z.literal("ple"),
  ...gatedOptions,
  levels: z
    .int()
    .min(1)
    .max(16)
    .default(1)
    .describe("`ple`: number of levels of experts; one level is CGC."),
  sharedExperts: experts.describe("`ple`: experts of a level that all tasks share."),
  taskExperts: experts.describe("`ple`: experts of a level that each task has for itself."),
});

/** ESMM: a click and the event after it, each with its own tower over the same tables. */
export const esmmOptions = z.strictObject({
  kind: z.literal("esmm"),
  ...multiTaskOptions,
  tasks: z
    .array(towerOptions)
    .refine(({ length }) => length === 2, {
      error: "two tasks: a label, as of a click, and one that is 0 without it",
    })
    .transform((tasks) => {
      return tasks.map((task, i) =>
        i === 0 ? task : { ...task, given: task.given ?? tasks[0]?.name },
      );
    })
    .describe("The tasks, one for each label of the data, in the order of the labels."),
});

/** A validated multi-task model. */
export type MultiTaskSpec =
  | z.output<typeof esmmOptions>
  | z.output<typeof sharedBottomOptions>
  | z.output<typeof mmoeOptions>
  | z.output<typeof pleOptions>;

/** Refuses tasks with the same name. */
export function taskProblems(tasks: readonly { readonly name: string }[]): Problem[] {
  const twice = firstTwice(tasks.map(({ name }) => name));
  if (twice < 0) return [];
  return [{ path: ["tasks", twice, "name"], message: "a name that no other task has" }];
}

/**
 * Refuses a `given` that names no earlier task, or where one of the two tasks has no probability.
 */
function givenProblems(tasks: MultiTaskSpec["tasks"]): Problem[] {
  const classes = ({ loss }: MultiTaskSpec["tasks"][number]) => loss?.kind !== "mse";
  return tasks.flatMap((task, i): Problem[] => {
    if (task.given === undefined) return [];
    const path = ["tasks", i, "given"];
    const first = tasks.slice(0, i).find(({ name }) => name === task.given);
    if (first === undefined) {
      const earlier = tasks.slice(0, i).map(({ name }) => `"${name}"`);
      const message =
        earlier.length === 0
          ? "left out of the first task"
          : `an earlier task, ${earlier.join(", ")}`;
      return [{ path, message }];
    }
    if (classes(task) && classes(first)) return [];
    return [{ path, message: "left out where a loss is `mse`: only probabilities multiply" }];
  });
}

/** Options of a model with several tasks that contradict each other. */
export function multiTaskProblems(model: MultiTaskSpec): Problem[] {
  const problems = [
    ...commonProblems(model),
    ...taskProblems(model.tasks),
    ...givenProblems(model.tasks),
  ];
  if (model.groups !== undefined && model.dim === undefined) {
    problems.push({ path: ["dim"], message: "the width of the vectors that groups give" });
  }
  return problems;
}
