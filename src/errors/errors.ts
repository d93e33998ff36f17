// Every error that Osiris raises on purpose. The class is the decision: a supervisor has one
// `switch` on `recovery`, and programs compare `code`, never the message.

import { visible } from "./visible.ts";

/** What a supervisor does about an error: go back to the last checkpoint, or end the run. */
export type Recovery = "restore" | "stop";

export abstract class TrainingError extends Error {
  /** Stable and documented in docs/errors.md: programs compare this, never the message. */
  abstract readonly code: string;
  /** What the supervisor does about it. */
  abstract readonly recovery: Recovery;

  constructor(message: string, options?: ErrorOptions) {
    super(visible(message), options);
    this.name = new.target.name;
  }
}

// The door ----

/** Options of a job, a command or a call are wrong. Nothing was started. */
export class InvalidOptionError extends TrainingError {
  readonly code = "INVALID_OPTION";
  readonly recovery = "stop";
  /** Path of the first that is wrong, for example `model.tables[3].dim`. */
  readonly option: string;
  /** All that are wrong, as far as could be seen at once. */
  readonly problems: readonly { readonly option: string; readonly message: string }[];

  constructor(option: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.option = option;
    this.problems = [{ option, message: this.message }];
  }

  /** One error for several problems, of which there is at least one. */
  static ofAll(problems: InvalidOptionError["problems"], options?: ErrorOptions) {
    const message = problems.map((problem) => problem.message).join("; ");
    const error = new InvalidOptionError(problems[0]?.option ?? "", message, options);
    return Object.assign(error, { problems });
  }
}

/** A file or an address that the user named cannot be used. */
export class InputUnusableError extends TrainingError {
  readonly code = "INPUT_UNUSABLE";
  readonly recovery = "stop";
  readonly path: string;

  constructor(path: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.path = path;
  }
}

// The step ----

/** A participant of the step was waited for beyond the step deadline. */
export class StepTimeoutError extends TrainingError {
  readonly code = "STEP_TIMEOUT";
  readonly recovery = "restore";
  /** What was waited for, and of whom: `pooled embeddings of device 1`. */
  readonly wait: string;

  constructor(wait: string, deadlineMs: number, options?: ErrorOptions) {
    super(`Waited ${deadlineMs} ms for ${wait}`, options);
    this.wait = wait;
  }
}

/** The generation was ended while this participant waited: it only steps aside. */
export class GenerationAbortedError extends TrainingError {
  readonly code = "GENERATION_ABORTED";
  readonly recovery = "restore";

  constructor(generation: number, options?: ErrorOptions) {
    super(`Generation ${generation} was aborted`, options);
  }
}

/** A thread or process that took part in the step has ended. */
export class PeerLostError extends TrainingError {
  readonly code = "PEER_LOST";
  readonly recovery = "restore";
  /** The actor that was lost, for example `device:1`. */
  readonly actor: string;
  readonly reason: string;

  constructor(actor: string, reason: string, options?: ErrorOptions) {
    super(`Lost ${actor}: ${reason}`, options);
    this.actor = actor;
    this.reason = reason;
  }
}

/** An id lies outside its table. Replaying would only meet it again. */
export class IdOutOfRangeError extends TrainingError {
  readonly code = "ID_OUT_OF_RANGE";
  readonly recovery = "stop";

  constructor(where: {
    table: string;
    feature: number;
    sample: number;
    id: number | bigint;
    rows: number;
  }) {
    super(
      `Expected ids of table \`${where.table}\` (feature ${where.feature}) to lie in ` +
        `0..${where.rows - 1}, got ${where.id} in sample ${where.sample} of the batch; ` +
        "the table's option `ids` can clamp or hash them",
    );
  }
}

/** The loss is no longer a number. Replaying would only repeat it. */
export class NonFiniteLossError extends TrainingError {
  readonly code = "NON_FINITE_LOSS";
  readonly recovery = "stop";
  readonly step: number;
  /** Samples of the batch from which it came, as far as they are known. */
  readonly samples: readonly number[];

  constructor(step: number, loss: number, samples: readonly number[] = []) {
    super(
      `The loss of step ${step} is ${loss}${ofSamples(samples)}; ` +
        "lower the learning rate or check the data",
    );
    this.step = step;
    this.samples = samples;
  }
}

/** A gradient holds a NaN or an infinity. The step was not committed; replaying would repeat it. */
export class NonFiniteGradientError extends TrainingError {
  readonly code = "NON_FINITE_GRADIENT";
  readonly recovery = "stop";
  readonly step: number;
  /** What it is the gradient of: ``parameter `top.0.weight` `` or ``table `user` ``. */
  readonly of: string;
  /**
   * Samples of the batch from which it came; none where finite gradients overflowed in a sum, or
   * where a table with `dedup` knows only the sums over a device's samples.
   */
  readonly samples: readonly number[];

  constructor(step: number, of: string, samples: readonly number[]) {
    const origin = samples.length === 0 ? " (a sum over the batch)" : ofSamples(samples);
    super(
      `The gradient of ${of} in step ${step} is not finite${origin}; ` +
        "lower the learning rate or check the data",
    );
    this.step = step;
    this.of = of;
    this.samples = samples;
  }
}

function ofSamples(samples: readonly number[], namedMax = 8): string {
  if (samples.length === 0) return "";
  const named = samples.slice(0, namedMax).join(", ");
  const others = samples.length - namedMax;
  return ` from sample ${named}${others > 0 ? ` and ${others} more` : ""} of the batch`;
}

/** This device cannot compute with the arithmetic that the run or the checkpoint began with. */
export class ArithmeticMismatchError extends TrainingError {
  readonly code = "ARITHMETIC_MISMATCH";
  readonly recovery = "stop";

  constructor(expected: string, actual: string) {
    super(
      `Expected the arithmetic \`${expected}\`, this process has \`${actual}\`: ` +
        "they differ in bits. Run `osiris build-native`, or start a new run",
    );
  }
}

/** A host has another version of Osiris than its cluster. */
export class VersionMismatchError extends TrainingError {
  readonly code = "VERSION_MISMATCH";
  readonly recovery = "stop";

  constructor(expected: string, actual: string) {
    super(
      `Expected version ${expected} of Osiris, as the cluster has, this process has ${actual}: ` +
        "install the same one",
    );
  }
}

/** A run has fewer devices than it waits for. */
export class HostsMissingError extends TrainingError {
  readonly code = "HOSTS_MISSING";
  readonly recovery = "stop";

  constructor(wanted: number, present: number, deadlineMs: number) {
    super(
      `Waited ${deadlineMs} ms for ${wanted} devices, ${present} are there: ` +
        "start hosts with `osiris host`, or ask for fewer devices",
    );
  }
}

/** A host does not see what the others write or read. */
export class PathNotSharedError extends TrainingError {
  readonly code = "PATH_NOT_SHARED";
  readonly recovery = "stop";
  readonly path: string;

  constructor(host: string, path: string) {
    super(
      `${host} does not see ${path}: data caches and the checkpoint directory must lie ` +
        "on a file system that all hosts share, under a path that is the same on each of them",
    );
    this.path = path;
  }
}

// The wire ----

/** A frame is larger than the transport carries. */
export class FrameTooLargeError extends TrainingError {
  readonly code = "FRAME_TOO_LARGE";
  readonly recovery = "stop";

  constructor(frameBytes: number, frameBytesMax: number) {
    super(`Expected a frame of at most ${frameBytesMax} bytes, got ${frameBytes}`);
  }
}

/** A frame does not decode to a message that we know. */
export class FrameCorruptError extends TrainingError {
  readonly code = "FRAME_CORRUPT";
  readonly recovery = "restore";

  constructor(subject: string, reason: string, options?: ErrorOptions) {
    super(`A frame on ${subject} is not a message: ${reason}`, options);
  }
}

/** Nobody answered a request in time, or nobody listens. */
export class RequestFailedError extends TrainingError {
  readonly code = "REQUEST_FAILED";
  readonly recovery = "restore";

  constructor(subject: string, reason: string, options?: ErrorOptions) {
    super(`No answer on ${subject}: ${reason}`, options);
  }
}

/** The broker cannot be reached. */
export class TransportLostError extends TrainingError {
  readonly code = "TRANSPORT_LOST";
  readonly recovery = "restore";

  constructor(address: string, reason: string, options?: ErrorOptions) {
    super(`Cannot reach the broker at ${address}: ${reason}`, options);
  }
}

/** More bytes are on their way to the broker than may be: the frame was dropped. */
export class TransportFullError extends TrainingError {
  readonly code = "TRANSPORT_FULL";
  readonly recovery = "restore";

  constructor(address: string, pendingBytes: number, pendingBytesMax: number) {
    super(
      `A frame to the broker at ${address} was dropped: ` +
        `${pendingBytes} of at most ${pendingBytesMax} bytes are on their way`,
    );
  }
}

// The store ----

/** There is no checkpoint where one was asked for. */
export class CheckpointMissingError extends TrainingError {
  readonly code = "CHECKPOINT_MISSING";
  readonly recovery = "stop";

  constructor(where: string, options?: ErrorOptions) {
    super(`There is no checkpoint in ${where}`, options);
  }
}

/** A checkpoint's bytes are not those that its manifest names. */
export class CheckpointCorruptError extends TrainingError {
  readonly code = "CHECKPOINT_CORRUPT";
  readonly recovery = "stop";
  readonly path: string;

  constructor(path: string, reason: string, options?: ErrorOptions) {
    super(`Checkpoint ${path} is damaged: ${reason}`, options);
    this.path = path;
  }
}

/** The checkpoint was made by another job: other model, data, optimizers or seed. */
export class CheckpointForeignError extends TrainingError {
  readonly code = "CHECKPOINT_FOREIGN";
  readonly recovery = "stop";

  constructor(directory: string, difference: string) {
    super(
      `${directory} holds a run of another job (${difference}); ` +
        "name another directory, or delete that one",
    );
  }
}

/** A newer generation owns the store: this writer is a zombie, and stops. */
export class GenerationFencedError extends TrainingError {
  readonly code = "GENERATION_FENCED";
  readonly recovery = "stop";

  constructor(generation: number, newest: number) {
    super(`Generation ${generation} may not write: generation ${newest} has taken over`);
  }
}

/** The disk refused a read or a write. */
export class StoreFailedError extends TrainingError {
  readonly code = "STORE_FAILED";
  readonly recovery = "restore";
  readonly path: string;

  constructor(action: string, path: string, options?: ErrorOptions) {
    const reason = options?.cause instanceof Error ? `: ${options.cause.message}` : "";
    super(`Cannot ${action} ${path}${reason}`, options);
    this.path = path;
  }
}

// Supervision ----

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

/** An error as plain data, to cross a thread or the wire without losing what decides. */
export interface ErrorRecord {
  readonly name: string;
  readonly code: string;
  readonly recovery: Recovery;
  readonly message: string;
  readonly cause?: string | undefined;
  /** The actor that it names as lost. */
  readonly actor?: string | undefined;
}

/** Plain data for any thrown value. An unknown error is `restore`: the restart limit ends it. */
export function recordError(error: unknown): ErrorRecord {
  const cause = error instanceof Error ? error.cause : undefined;
  const known = error instanceof TrainingError;
  const actor = known && "actor" in error ? error.actor : undefined;
  return {
    name: error instanceof Error ? error.name : "Error",
    code: known ? error.code : "UNKNOWN",
    recovery: known ? error.recovery : "restore",
    message: visible(error instanceof Error ? error.message : String(error)),
    ...(cause === undefined ? {} : { cause: visible(String(cause)) }),
    ...(typeof actor === "string" ? { actor } : {}),
  };
}

/** An error that happened elsewhere: code and recovery are those of the original. */
export class RemoteError extends TrainingError {
  readonly code: string;
  readonly recovery: Recovery;
  readonly actor: string | undefined;

  constructor(record: ErrorRecord) {
    super(record.message, record.cause === undefined ? undefined : { cause: record.cause });
    this.name = record.name;
    this.code = record.code;
    this.recovery = record.recovery;
    this.actor = record.actor;
  }
}
