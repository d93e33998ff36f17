// The streams of a GPU, and the tasks of other streams that a task waits for (device-program.ts).

import type { StepTaskName } from "../../../internal.ts";

export type Stream = "memory" | "ids" | "rows" | "compute";

/** The stream of each task. */
export const streamOf: Readonly<Record<StepTaskName, Stream>> = {
  ...{ batch: "memory", ids: "ids", receiveIds: "ids", tiers: "rows" },
  ...{ lookup: "rows", lookupAhead: "rows", lookupRest: "rows", lookupReplicas: "compute" },
  ...{ forwardEarly: "compute", receiveReads: "compute", forwardLate: "compute" },
  ...{ backwardLate: "compute", sendGradients: "compute", backwardEarly: "compute" },
  ...{ receiveGradients: "rows", updateRows: "rows" },
  ...{ allReduce: "compute", updateDense: "compute", losses: "compute", checkpoint: "compute" },
};

/** A task of another stream that must have ended first, for the step `before` steps earlier. */
interface Need {
  readonly name: StepTaskName;
  readonly before: number;
  /** Whether the number of staged batches is added to `before`. */
  readonly isStaged?: boolean;
}

/** Batches are copied two steps ahead, and ids are sent one step ahead. */
export const needs: Readonly<Partial<Record<StepTaskName, readonly Need[]>>> = {
  batch: [{ name: "updateDense", before: 3, isStaged: true }],
  ids: [
    { name: "batch", before: 0 },
    { name: "updateDense", before: 2, isStaged: true },
  ],
  tiers: [{ name: "receiveIds", before: 0 }],
  lookupReplicas: [{ name: "ids", before: 0 }],
  forwardEarly: [{ name: "batch", before: 0 }],
  receiveGradients: [{ name: "sendGradients", before: 0 }], // Else a wait for other devices.
  losses: [{ name: "updateRows", before: 0 }],
};
