// The tasks of the model beside the labels of the data.

import type { ResolvedDataOptions } from "../data/options.ts";
import { labelsOf } from "../data/targets.ts";
import type { ModelSpec } from "../model/options.ts";
import { expected } from "../ports/check-options.ts";

/** @throws InvalidOptionError where the tasks of the model are not the labels of the data */
export function checkTasks({
  data,
  model,
}: {
  readonly data: ResolvedDataOptions;
  readonly model: ModelSpec;
}): void {
  const labels = labelsOf(data);
  if (!("tasks" in model)) {
    if (labels.length === 1) return;
    const option = data.kind === "synthetic" ? "data.labels" : "data.label";
    const kinds = '`model.kind` is no "sharedBottom", "mmoe" or "ple"';
    throw expected(option, `one label, as ${kinds}`, labels);
  }
  if (labels.length !== model.tasks.length) {
    const named = labels.map((label) => `\`${label}\``).join(", ");
    const tasks = `a task for each label of the data, ${named}`;
    throw expected("model.tasks", tasks, `${model.tasks.length} tasks`);
  }
  const other = model.tasks.findIndex(({ name }, i) => name !== labels[i]);
  if (other < 0) return;
  const label = `"${labels[other]}", the label at its place in the data`;
  throw expected(`model.tasks[${other}].name`, label, model.tasks[other]?.name);
}
