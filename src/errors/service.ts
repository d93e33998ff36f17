// The errors of the job service: a request that cannot be served as things are.

import { TrainingError } from "./errors.ts";

/** A submission's key belongs to a run of another job: it is not done again, and not replaced. */
export class KeyTakenError extends TrainingError {
  readonly code = "KEY_TAKEN";
  readonly recovery = "stop";

  constructor(key: string, run: string) {
    super(`Key \`${key}\` belongs to run ${run} of another job: submit this one under another key`);
  }
}

/** A tenant has as much as its quota allows. */
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

/** A run is not in a state in which it can do what was asked. */
export class RunStateError extends TrainingError {
  readonly code = "RUN_STATE";
  readonly recovery = "stop";

  constructor(run: string, verb: string, expected: string, status: string) {
    super(`Cannot ${verb} run ${run}: expected it to be ${expected}, it is ${status}`);
  }
}

/** Entries of the journal of the runs are damaged: what they told is not known any more. */
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
