// The errors of a proof: why an interval of a run cannot be trained again bit by bit.

import { TrainingError } from "./errors.ts";

/** What was trained between two checkpoints does not follow from the first one alone. */
export class NotReplayableError extends TrainingError {
  readonly code = "NOT_REPLAYABLE";
  readonly recovery = "stop";

  constructor(interval: string, why: string) {
    super(`${interval} cannot be replayed bit by bit: ${why}`);
  }
}
