// Counts of trained samples and lost updates of asynchronous training, as a part of a run's
// metrics: a restored run continues the counts.

import { asynchronousOf } from "../../../src/job/check-asynchronous.ts";
import type { JobSpec } from "../../../src/job/job.ts";
import type { Asynchronous } from "./run-result.ts";

const nothingLost: Asynchronous = {
  samples: 0,
  updates: 0,
  restarts: { trainer: 0, rows: 0, center: 0 },
};

/** Adds the samples of a window. */
export function withSamples(before = nothingLost, samples: number): Asynchronous {
  return { ...before, samples: before.samples + samples };
}

/** Adds the updates lost with an actor of asynchronous training. */
export function withLoss<Metrics extends { readonly asynchronous?: Asynchronous }>(
  metrics: Metrics,
  { what, updates }: { readonly what: keyof Asynchronous["restarts"]; readonly updates: number },
): { readonly metrics: Metrics } {
  const before = metrics.asynchronous ?? nothingLost;
  const restarts = { ...before.restarts, [what]: before.restarts[what] + 1 };
  const asynchronous = { ...before, updates: before.updates + updates, restarts };
  return { metrics: { ...metrics, asynchronous } };
}

/** The warning of every result of asynchronous training. */
export const notReproducible = {
  code: "NOT_REPRODUCIBLE",
  message:
    "Trained asynchronously (`mode: async`): the digest names this model, and the same job trained " +
    "again gives another one",
};

/** Below this share of the way, the center is far from the weights that trainers have trained. */
const reachedMin = 0.9;

/** The notice at the start of asynchronous training: also says if trainers will meet too rarely. */
export function asynchronousNotice(
  job: Pick<JobSpec, "mode" | "async">,
  { steps, trainers }: { readonly steps: number; readonly trainers: number },
): string {
  const notice =
    "asynchronous training: results depend on timing, and no run can be repeated bit by bit";
  const { every, share = 0.5 / trainers } = asynchronousOf(job).elastic;
  const meetings = trainers * Math.floor(steps / trainers / every);
  const reached = 1 - (1 - share) ** meetings;
  if (reached >= reachedMin) return notice;
  return (
    `${notice}; in ${steps} steps, trainers meet the center ${meetings} times, which takes it ` +
    `${Math.floor(100 * reached)} % of the way from its first weights: the model will be far from ` +
    "trained, unless `async.elastic.every` is smaller or `data.epochs` larger"
  );
}
