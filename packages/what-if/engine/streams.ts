// The streams of a GPU, and what a task of one needs of the others (device-program.ts).

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

/** A task of another stream that a task needs, so many steps before its own. */
interface Need {
  readonly name: StepTaskName;
  readonly before: number;
  /** Whether as many steps more as may be staged. */
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
  receiveGradients: [{ name: "sendGradients", before: 0 }], // Or it would seem to wait for others.
  losses: [{ name: "updateRows", before: 0 }],
};
