// Options of models with several tasks (multi-task.ts): shared bottom, MMoE and PLE.

import { z } from "zod";
import { visibleName } from "../../data/column-name-options.ts";
import {
  commonOptions,
  commonProblems,
  firstTwice,
  type ModelOptionsOf,
  type Problem,
  widths,
} from "./common-options.ts";
import { lossOptions } from "./loss-options.ts";

/** Most experts of one kind: of all tasks, or of one. */
const experts = z.int().min(1).max(64);

/** A task, whatever its layers are. */
export const taskOptions = z.strictObject({
  /** The label that it predicts: that of its place in the data's labels. */
  name: visibleName,
  /** How its logit and its label become its loss. @default the job's `loss` */
  loss: lossOptions.optional(),
  /** Factor of its loss in the loss of the model. */
  weight: z.number().positive().default(1),
});

/** Most tasks of a model. */
export const tasksMax = 16;

const towerOptions = taskOptions.extend({
  /** Widths of the hidden layers of its tower, which ends in the logit. */
  tower: widths.default([]),
});

const multiTaskOptions = {
  ...commonOptions,
  /** One for each label of the data, in their order. */
  tasks: z.array(towerOptions).min(1).max(tasksMax),
};

const gatedOptions = {
  ...multiTaskOptions,
  /** Widths of an expert's layers. ReLU after every layer. */
  expert: widths.min(1),
  /** Widths of the hidden layers of a gate, which ends in a weight for each expert. */
  gate: widths.default([]),
};

/** Towers over one MLP (Caruana 1997). */
export const sharedBottomOptions = z.strictObject({
  kind: z.literal("sharedBottom"),
  ...multiTaskOptions,
  /** Widths of the layers that all tasks share. ReLU after every layer. */
  shared: widths.min(1),
});

/** MMoE: each task mixes the experts of all by a gate of its own. */
export const mmoeOptions = z.strictObject({
  kind: z.literal("mmoe"),
  ...gatedOptions,
  /** Experts that all tasks mix. */
  experts,
});

/** PLE: levels of experts, of all tasks and of each. */
export const pleOptions = z.strictObject({
  kind: z.literal("ple"),
  ...gatedOptions,
  /** Levels of experts; one level is CGC. */
  levels: z.int().min(1).max(16).default(1),
  /** Experts of a level that all tasks mix. */
  sharedExperts: experts,
  /** Experts of a level that each task has for itself. */
  taskExperts: experts,
});

/** A model with several tasks after its checks. */
export type MultiTaskSpec =
  | z.output<typeof sharedBottomOptions>
  | z.output<typeof mmoeOptions>
  | z.output<typeof pleOptions>;

export type MultiTaskOptions =
  | ModelOptionsOf<typeof sharedBottomOptions>
  | ModelOptionsOf<typeof mmoeOptions>
  | ModelOptionsOf<typeof pleOptions>;

/** Names of tasks that are not different. */
export function taskProblems(tasks: readonly { readonly name: string }[]): Problem[] {
  const twice = firstTwice(tasks.map(({ name }) => name));
  if (twice < 0) return [];
  return [{ path: ["tasks", twice, "name"], message: "a name that no other task has" }];
}

/** Options of a model with several tasks that contradict each other. */
export function multiTaskProblems(model: MultiTaskSpec): Problem[] {
  const problems = [...commonProblems(model), ...taskProblems(model.tasks)];
  if (model.groups !== undefined && model.dim === undefined) {
    problems.push({ path: ["dim"], message: "the width of the vectors that groups give" });
  }
  return problems;
}
