// Models with several tasks, each with its own label, tower and loss: shared bottom (Caruana,
// "Multitask learning", 1997), MMoE (Ma et al., KDD 2018) and PLE (Tang et al., RecSys 2020),
// structured as in FuxiCTR, and ESMM (Ma et al., SIGIR 2018), whose towers share only the tables.
// The input of each model is the dense features and the vectors of the lookups, concatenated.
//
// The tower of a task that is `given` another task predicts it among the samples with that other
// event. The task's probability is the product of both probabilities; its loss is taken over all
// samples.
//
// T = tasks, E = experts that a gate mixes, H = columns of an expert's output.

import { z } from "zod";
import { visibleName } from "../../data/column-name-options.ts";
import { missingLabel } from "../../data/column-options.ts";
import { softmax, weightedSums } from "../blocks/attention.ts";
import { concat } from "../blocks/concat.ts";
import { jointLogit } from "../blocks/joint-logit.ts";
import { mlp } from "../blocks/mlp.ts";
import {
  type Graph,
  type GraphBuilder,
  type Objective,
  reshape,
  type Value,
} from "../graph/graph.ts";
import { lossOptions } from "../loss.ts";
import { vectors } from "../vectors.ts";
import { commonOptions, commonProblems, firstTwice, type Problem, widths } from "./common.ts";

/** Number of experts of one kind: shared by all tasks, or of one task. */
const experts = z
  .int()
  .min(1)
  .max(64)
  .describe("Experts: MLPs whose outputs the gates of the tasks mix.");

/** Options that the tasks of all models share. */
export const taskOptions = z.strictObject({
  name: visibleName.describe("The label that it predicts: that of its place in the data's labels."),
  loss: lossOptions
    .optional()
    .describe("How its logit and its label become its loss. Left out: the job's `loss`."),
  missing: missingLabel
    .optional()
    .describe(
      "Rows without this label: `mask`, the task has no loss and no metric on them, and the other tasks train; `negative`, the label is 0. Left out: a bad line.",
    ),
  weight: z.number().positive().default(1).describe("Factor of its loss in the loss of the model."),
});

/** Most tasks of a model. */
export const tasksMax = 16;

const towerOptions = taskOptions.extend({
  given: visibleName
    .optional()
    .describe(
      "`sharedBottom`, `mmoe`, `ple`, `esmm`: an earlier task without which this one's label is 0, as a purchase without a click. The tower predicts the label among the rows with that task's, and the prediction is the product of both probabilities. Left out: none; the second task of `esmm` is given the first.",
    ),
  tower: widths
    .default([])
    .describe(
      "`sharedBottom`, `mmoe`, `ple`, `esmm`: widths of the hidden layers of its tower, which ends in the logit.",
    ),
});

const multiTaskOptions = {
  ...commonOptions,
  tasks: z
    .array(towerOptions)
    .min(1)
    .max(tasksMax)
    .describe("A task for each label of the data, in their order."),
};

const gatedOptions = {
  ...multiTaskOptions,
  expert: widths.min(1).describe("`mmoe`, `ple`: widths of an expert's layers."),
  gate: widths
    .default([])
    .describe(
      "`mmoe`, `ple`: widths of the hidden layers of a gate, which ends in a weight for each expert.",
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
  levels: z.int().min(1).max(16).default(1).describe("Levels of experts; one level is CGC."),
  sharedExperts: experts.describe("`ple`: experts of a level that all tasks mix."),
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
    .describe("A task for each label of the data, in their order."),
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

/** A task of a model, without its layers. */
type Task = Pick<MultiTaskSpec["tasks"][number], "name" | "weight" | "loss">;

/** Builds a multi-task model: a logit and an objective for each task. */
export function multiTaskGraph(graph: GraphBuilder, spec: MultiTaskSpec): Graph {
  const { dropout, batchNorm: hasBatchNorm, dim } = spec;
  const first = graph.dense === undefined ? {} : { first: graph.dense };
  const width = dim ?? spec.tables[0]?.dim ?? 0;
  const x = vectors(graph, spec, { ...first, dim: width, keepsWidths: dim === undefined });
  const ends = endsOf(graph, spec, x);
  const logits: Value[] = [];
  for (const [task, { tower, given }] of spec.tasks.entries()) {
    const widths = [...tower, 1];
    const options = { name: `towers.${task}`, widths, dropout, hasBatchNorm };
    const own = mlp(graph, ends[task] ?? x, options);
    const first = logits[spec.tasks.findIndex(({ name }) => name === given)];
    logits.push(first === undefined ? own : jointLogit(graph, first, own));
  }
  return graph.finish(concat(graph, logits), objectivesOf(spec.tasks));
}

/** The objective of each task's logit: the label at the task's index. */
export function objectivesOf(tasks: readonly Task[]): Objective[] {
  return tasks.map(({ name, weight, loss }, task) => {
    const target = { of: "label", column: task } as const;
    return { logit: task, target, weight, task: name, rule: loss };
  });
}

/** The input of each task's tower. */
function endsOf(graph: GraphBuilder, spec: MultiTaskSpec, x: Value): Value[] {
  switch (spec.kind) {
    case "esmm":
      return spec.tasks.map(() => x);
    case "sharedBottom": {
      const { shared: widths, dropout, batchNorm: hasBatchNorm } = spec;
      const own = { name: "shared", widths, reluLast: true, dropout, hasBatchNorm };
      const shared = mlp(graph, x, own);
      return spec.tasks.map(() => shared);
    }
    case "mmoe": {
      const experts = expertsOf(graph, spec, x, { name: "experts", count: spec.experts });
      return spec.tasks.map((_, task) => mix(graph, spec, x, experts, `gates.${task}`));
    }
    case "ple":
      return levelsOf(graph, spec, x);
    default:
      return spec satisfies never;
  }
}

type GatedSpec = Extract<MultiTaskSpec, { kind: "mmoe" | "ple" }>;

/** The levels of PLE: per-task and shared experts, mixed by gates into the next level's inputs. */
function levelsOf(
  graph: GraphBuilder,
  spec: Extract<MultiTaskSpec, { kind: "ple" }>,
  x: Value,
): Value[] {
  let shared = x;
  let own = spec.tasks.map(() => x);
  for (let level = 0; level < spec.levels; level++) {
    const at = `levels.${level}`;
    const ofAll = { name: `${at}.shared`, count: spec.sharedExperts };
    const common = expertsOf(graph, spec, shared, ofAll);
    const ofTasks = own.map((value, task) => {
      const ofTask = { name: `${at}.tasks.${task}`, count: spec.taskExperts };
      return expertsOf(graph, spec, value, ofTask);
    });
    own = own.map((value, task) => {
      const experts = [...(ofTasks[task] ?? []), ...common];
      return mix(graph, spec, value, experts, `${at}.gates.${task}`);
    });
    if (level + 1 === spec.levels) break; // No further level takes shared inputs.
    const experts = [...ofTasks.flat(), ...common];
    shared = mix(graph, spec, shared, experts, `${at}.gates.shared`);
  }
  return own;
}

/** The outputs (H) of experts `name.0`, `name.1` … over x. */
function expertsOf(
  graph: GraphBuilder,
  { expert: widths, dropout, batchNorm: hasBatchNorm }: GatedSpec,
  x: Value,
  { name, count }: { readonly name: string; readonly count: number },
): Value[] {
  return Array.from({ length: count }, (_, i) => {
    return mlp(graph, x, { name: `${name}.${i}`, widths, reluLast: true, dropout, hasBatchNorm });
  });
}

/** The sum of the experts' outputs, weighted by the softmax of a gate over x. Returns (H). */
function mix(
  graph: GraphBuilder,
  { gate }: GatedSpec,
  x: Value,
  experts: readonly Value[],
  name: string,
): Value {
  const scores = mlp(graph, x, { name, widths: [...gate, experts.length] });
  const weights = softmax(graph, reshape(scores, [1, experts.length]));
  const [columns = 0] = experts[0]?.shape ?? [];
  const all = reshape(concat(graph, experts), [experts.length, columns]);
  return reshape(weightedSums(graph, weights, all), [columns]);
}
