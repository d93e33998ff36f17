// The tasks of the model beside the labels of the data.

import type { ResolvedDataOptions } from "../data/options.ts";
import { targetsOf } from "../data/targets.ts";
import { expected } from "../ports/check-options.ts";

/** @throws InvalidOptionError where the data have labels for which the model has no task */
export function checkTasks({ data }: { readonly data: ResolvedDataOptions }): void {
  const { labels } = targetsOf(data);
  if (labels === 1) return;
  const option = data.kind === "synthetic" ? "data.labels" : "data.label";
  throw expected(option, "one label, as the model has one task", labels);
}
