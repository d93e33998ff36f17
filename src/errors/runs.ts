// Errors of runs: runs that end without a model, and requests that the queue refuses.

import { TrainingError } from "./training-error.ts";

/** Children failed too often: the supervisor gives up. The cause is the last failure. */
export class RestartLimitError extends TrainingError {
  readonly code = "RESTART_LIMIT";
  readonly recovery = "stop";
  /** The actor that gave up. */
  readonly supervisor: string;

  constructor(supervisor: string, restarts: number, withinMs: number, options?: ErrorOptions) {
    const cause =
      options?.cause instanceof Error ? `; the last failure: ${options.cause.message}` : "";
    super(`Gave up after ${restarts} restarts within ${withinMs / 1000} s${cause}`, options);
    this.supervisor = supervisor;
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

/** Leaders have repeatedly crashed while they prepared the run: it is not started again. */
export class RunSetAsideError extends TrainingError {
  readonly code = "RUN_SET_ASIDE";
  readonly recovery = "stop";

  constructor(run: string, leaders: number) {
    super(
      `Run ${run} was set aside: ${leaders} leaders ended while they prepared it, and no step was ` +
        "made. Look at its data, its vocabularies and the memory that they need; submit the job " +
        "again to try once more",
    );
  }
}

/** The key of a submission belongs to a run of another job, which is not repeated or replaced. */
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

/** The state of a run does not allow the request. */
export class RunStateError extends TrainingError {
  readonly code = "RUN_STATE";
  readonly recovery = "stop";

  constructor(run: string, request: string, expected: string, status: string) {
    super(`Cannot ${request} run ${run}: expected it to be ${expected}, it is ${status}`);
  }
}

/** Entries of the journal of runs are corrupt: their runs or events are lost. */
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

/** The rows of a run need more memory than its host has. */
export class MemoryExceededError extends TrainingError {
  readonly code = "MEMORY_EXCEEDED";
  readonly recovery = "stop";

  /** `tables`: the tables on the host with their bytes, the largest first. */
  constructor(
    host: string,
    bytes: number,
    bytesMax: number,
    tables: readonly {
      readonly table: string;
      readonly rows: number;
      readonly dim: number;
      readonly bytes: number;
    }[],
  ) {
    const large = tables.filter(({ bytes: own }) => own >= bytes / 100);
    const shown = large.slice(0, 3).map(({ table, rows, dim, bytes: own }) => {
      const shape = `${rows.toLocaleString("en-US")} rows of ${dim}`;
      return `\`${table}\` ${gigabytes(own)} (${shape})`;
    });
    const rest = tables.length > shown.length ? `, and ${tables.length - shown.length} more` : "";
    super(
      `The tables need ${gigabytes(bytes)} of memory on ${host}, which has ` +
        `${gigabytes(bytesMax)}: ${shown.join(", ")}${rest}; give the largest ones ` +
        '`tier: "cached"`, fewer `rows` or a smaller `dim`, or train on more hosts',
    );
  }
}

function gigabytes(bytes: number): string {
  return `${(bytes / 1e9).toLocaleString("en-US", { maximumSignificantDigits: 3 })} GB`;
}
