// Errors of `osiris ingest`: streams that cannot be joined with the given options.

import { TrainingError } from "./training-error.ts";

/** A stream has deleted messages that were not ingested yet, or that the join needs again. */
export class StreamTrimmedError extends TrainingError {
  readonly code = "STREAM_TRIMMED";
  readonly recovery = "stop";
  readonly stream: string;
  /** The first sequence that is missing, and the first that the stream still has. */
  readonly wanted: number;
  readonly first: number;

  constructor(stream: string, wanted: number, first: number) {
    const missing = `its messages from ${wanted} to ${first - 1} are gone`;
    super(
      `Cannot go on with the stream ${stream}: ${missing}; keep messages longer ` +
        "(`max_age`, `max_bytes`), and ingest into a new directory",
    );
    this.stream = stream;
    this.wanted = wanted;
    this.first = first;
  }
}

/** The requests and events of the join window exceed their memory limit. */
export class WindowFullError extends TrainingError {
  readonly code = "WINDOW_FULL";
  readonly recovery = "stop";
  readonly bytes: number;

  constructor(bytes: number, held: { readonly requests: number; readonly events: number }) {
    const what = `${held.requests} requests and ${held.events} events`;
    super(
      `Expected the join to need at most ${bytes} bytes, and ${what} are in its window: ` +
        "raise `stateBytes`, or shorten `window` or `lateness`",
    );
    this.bytes = bytes;
  }
}

/** A directory of ingested files belongs to other streams or other options. */
export class IngestForeignError extends TrainingError {
  readonly code = "INGEST_FOREIGN";
  readonly recovery = "stop";
  readonly directory: string;

  constructor(directory: string, what: string) {
    super(`Cannot go on in ${directory}: ${what}; name another directory`);
    this.directory = directory;
  }
}
