// Joins the answers of a generation's devices to device.run. Devices that step together reach the
// same step, with the same losses. Asynchronous trainers report separate losses, and may pause at
// different steps: the slower ones then catch up, so that a cut lies between batches.

import type { JobSpec } from "../../../src/job/job.ts";
import type { MessageEvent } from "../../runtime/mailbox.ts";
import { addCounts, addIdCounts } from "../state/run-metrics.ts";

type Answer = MessageEvent<"device.reached">["body"];

/** `step`: all batches before it are trained. `ahead`: the step that some trainer has reached. */
export type JoinedWindow = Answer & { readonly ahead: number };

/** Joins answers in the order of ranks. `lossBefore`: the loss sum with which the window began. */
export function joinWindows(
  { mode }: Pick<JobSpec, "mode">,
  answers: readonly Answer[],
  lossBefore: number,
): JoinedWindow {
  const [first] = answers;
  if (first === undefined) throw new RangeError("There is no device 0");
  const counts = {
    repairedIds: answers.map((one) => one.repairedIds).reduce(addCounts),
    staleRows: answers.map((one) => one.staleRows).reduce(addCounts),
    dynamicIds: answers.map((one) => one.dynamicIds).reduce(addIdCounts),
  };
  if (mode !== "async") return { ...first, ...counts, ahead: first.step };
  const sum = (of: (answer: Answer) => number) =>
    answers.reduce((all, answer) => all + of(answer), 0);
  return {
    ...{ ...first, ...counts },
    step: Math.min(...answers.map(({ step }) => step)),
    ahead: Math.max(...answers.map(({ step }) => step)),
    lossSum: lossBefore + sum(({ lossSum }) => lossSum),
    steps: sum(({ steps }) => steps),
    samples: sum(({ samples = 0 }) => samples),
  };
}
