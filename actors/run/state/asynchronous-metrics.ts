// What asynchronous training did and lost, as a part of a run's metrics: a restored run continues
// to count.

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

/** Adds what was lost with an actor of asynchronous training. */
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
