// Errors of runs: how a run ends without a model, and requests that the queue refuses.

import { TrainingError } from "./training-error.ts";

/** Children failed too often; the supervisor gives up and hands its first cause upward. */
export class RestartLimitError extends TrainingError {
  readonly code = "RESTART_LIMIT";
  readonly recovery = "stop";

  constructor(supervisor: string, restarts: number, withinMs: number, options?: ErrorOptions) {
    const cause =
      options?.cause instanceof Error ? `; the last failure: ${options.cause.message}` : "";
    super(`${supervisor} restarted ${restarts} times within ${withinMs} ms${cause}`, options);
  }
}

/** The run was cancelled by its owner. */
export class RunCancelledError extends TrainingError {
  readonly code = "RUN_CANCELLED";
  readonly recovery = "stop";

  constructor(run: string) {
    super(`Run ${run} was cancelled; its job, submitted again, goes on from its last checkpoint`);
  }
}

/** A submission's key belongs to a run of another job. The run is neither repeated nor replaced. */
export class KeyTakenError extends TrainingError {
  readonly code = "KEY_TAKEN";
  readonly recovery = "stop";

  constructor(key: string, run: string) {
    super(`Key \`${key}\` belongs to run ${run} of another job: submit this one under another key`);
  }
}

/** A tenant has reached its quota. */
export class QuotaExceededError extends TrainingError {
  readonly code = "QUOTA_EXCEEDED";
  readonly recovery = "stop";

  constructor(tenant: string | undefined, what: string, most: number) {
    const whose = tenant === undefined ? "Whoever runs the cluster" : `Tenant \`${tenant}\``;
    super(
      `${whose} may have at most ${most} ${what}: ` +
        "wait until a run is over, cancel one, or ask for a larger quota",
    );
  }
}

/** A run is in a state in which it cannot do what a request asks. */
export class RunStateError extends TrainingError {
  readonly code = "RUN_STATE";
  readonly recovery = "stop";

  constructor(run: string, request: string, expected: string, status: string) {
    super(`Cannot ${request} run ${run}: expected it to be ${expected}, it is ${status}`);
  }
}

/** Entries of the journal of runs are damaged: their runs or events are lost. */
export class JournalDamagedError extends TrainingError {
  readonly code = "JOURNAL_DAMAGED";
  readonly recovery = "stop";

  constructor(directory: string, entries: number) {
    super(
      `${entries} entries of the journal of the runs in ${directory} are damaged and were left out: ` +
        "look at the disk, and submit again what `osiris ls` does not list",
    );
  }
}
