// Checks the tasks of the model against the labels of the data, and each label against its loss.

import { namesColumns } from "../data/data-kinds.ts";
import type { ResolvedDataOptions } from "../data/options.ts";
import { areNumeric, labelsOf, targetsOf } from "../data/targets.ts";
import { lossesOf } from "../model/loss.ts";
import type { LossSpec } from "../model/loss-options.ts";
import type { ModelSpec } from "../model/options.ts";
import { expected } from "../ports/check-options.ts";

/** The part of a job that defines its predictions. */
interface PredictingJob {
  readonly data: ResolvedDataOptions;
  readonly model: ModelSpec;
  readonly loss: LossSpec;
}

/**
 * @throws InvalidOptionError where the tasks of the model are not the labels of the data, or a
 * label does not have the kind that its loss trains
 */
export function checkTasks(job: PredictingJob): void {
  checkNames(job);
  checkKinds(job);
  checkMissing(job);
}

function checkNames({ data, model }: PredictingJob): void {
  const labels = labelsOf(data);
  const tasks = tasksOf(model);
  if (tasks === undefined) {
    if (labels.length === 1) return;
    const option = data.kind === "synthetic" ? "data.labels" : "data.label";
    const kinds =
      model.kind === "custom"
        ? "`model.tasks` is left out"
        : '`model.kind` is no "sharedBottom", "mmoe", "ple" or "esmm"';
    throw expected(option, `one label, as ${kinds}`, labels);
  }
  if (labels.length !== tasks.length) {
    const named = labels.map((label) => `\`${label}\``).join(", ");
    const wanted = `a task for each label of the data, ${named}`;
    throw expected("model.tasks", wanted, `${tasks.length} tasks`);
  }
  const other = tasks.findIndex(({ name }, i) => name !== labels[i]);
  if (other < 0) return;
  const label = `"${labels[other]}", the label at its place in the data`;
  throw expected(`model.tasks[${other}].name`, label, tasks[other]?.name);
}

/** The tasks of a multi-task model; undefined: the model has one logit. */
function tasksOf(model: ModelSpec) {
  return "tasks" in model ? model.tasks : undefined;
}

/** Numeric labels need the loss `mse`, and only numeric labels may have it. */
function checkKinds(job: PredictingJob): void {
  const { data, model, loss } = job;
  const labels = labelsOf(data);
  const numeric = areNumeric(data);
  const losses = lossesOf(job);
  const named = data.kind === "criteo-tsv" ? [] : (data.numericLabels ?? []);
  const unknown = named.findIndex((name) => !labels.includes(name));
  if (unknown >= 0) {
    const wanted = `one of the labels, ${labels.map((label) => `\`${label}\``).join(", ")}`;
    throw expected(`data.numericLabels[${unknown}]`, wanted, named[unknown]);
  }
  for (const [i, label] of labels.entries()) {
    const isMse = losses[i]?.kind === "mse";
    if (isMse === numeric[i]) continue;
    const hasOwn = tasksOf(model)?.[i]?.loss !== undefined;
    const option = hasOwn ? `model.tasks[${i}].loss.kind` : "loss.kind";
    const wanted =
      data.kind === "criteo-tsv"
        ? '"binaryCrossEntropy", as the label of Criteo\'s logs is a class'
        : `"${isMse ? "binaryCrossEntropy" : "mse"}", as \`data.numericLabels\` ` +
          `${isMse ? "does not name" : "names"} \`${label}\``;
    throw expected(option, wanted, losses[i]?.kind);
  }
  if (!numeric.includes(false)) checkNoClasses(data);
  if (loss.kind === "mse" && model.kind === "finalNet" && model.second !== undefined) {
    const why = '"binaryCrossEntropy" where `model.second` is named, as both blocks of a FinalNet';
    throw expected("loss.kind", `${why} learn from the probability that they predict`, loss.kind);
  }
}

/** The rules for missing labels must name labels of the data, and match those of the tasks. */
function checkMissing({ data, model }: PredictingJob): void {
  const rules = data.kind === "criteo-tsv" ? undefined : data.missingLabels;
  const [labels, numeric] = [labelsOf(data), areNumeric(data)];
  const unknown = Object.keys(rules ?? {}).find((name) => !labels.includes(name));
  if (unknown !== undefined) {
    const wanted = `names of labels, ${labels.map((label) => `\`${label}\``).join(", ")}`;
    throw expected("data.missingLabels", wanted, unknown);
  }
  for (const [i, label] of labels.entries()) {
    const [rule, said] = [rules?.[label], tasksOf(model)?.[i]?.missing];
    if (said !== undefined && said !== rule) {
      const wanted = `"${said}" for \`${label}\`, as \`model.tasks[${i}].missing\` says`;
      throw expected("data.missingLabels", wanted, rule);
    }
    if (rule !== "negative" || numeric[i] !== true) continue;
    const option = said === undefined ? "data.missingLabels" : `model.tasks[${i}].missing`;
    throw expected(option, `"mask", as \`${label}\` is a number, not a class`, rule);
  }
}

/** Options that need classes are refused if each label is numeric. */
function checkNoClasses(data: ResolvedDataOptions): void {
  const why = "left out where each label is a number";
  if (namesColumns(data) && data.positive !== undefined) {
    throw expected("data.positive", why, data.positive);
  }
  if (!targetsOf(data).hasGroups) return;
  const [option, groups] = namesColumns(data)
    ? ["data.group", data.group]
    : ["data.groups", data.kind === "synthetic" ? data.groups : undefined];
  throw expected(option, `${why}, as groups are for GAUC, which ranks classes`, groups);
}
