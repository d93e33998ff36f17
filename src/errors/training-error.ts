// The base of all errors of Osiris, and how an error crosses a thread or the wire. The class of an
// error decides what happens next: a supervisor has one `switch` on `recovery`. Programs compare
// `code`, never the message.

import { visible } from "./visible.ts";

/** The supervisor's reaction to an error: go back to the last checkpoint, or end the run. */
export type Recovery = "restore" | "stop";

export abstract class TrainingError extends Error {
  /** Stable and documented in docs/errors.md: programs compare this, never the message. */
  abstract readonly code: string;
  /** The supervisor's reaction. */
  abstract readonly recovery: Recovery;

  constructor(message: string, options?: ErrorOptions) {
    super(visible(message), options);
    this.name = new.target.name;
  }
}

/** An error as plain data, to cross a thread or the wire with its code and recovery. */
export interface ErrorRecord {
  readonly name: string;
  readonly code: string;
  readonly recovery: Recovery;
  readonly message: string;
  readonly cause?: string | undefined;
  /** The actor that the error names as lost. */
  readonly actor?: string | undefined;
}

/**
 * Plain data for any thrown value. An unknown error is `restore`, and the restart limit ends it.
 */
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

/** An error from another thread or process, with the original's code and recovery. */
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
