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
import { vectors } from "../vectors.ts";
import type { MultiTaskSpec } from "./multi-task-options.ts";

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
