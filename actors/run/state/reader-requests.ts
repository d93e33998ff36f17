// Requests to the readers of a run: a rate limit, which holds in every generation until it is
// lifted; and drain requests to single readers, which the coordinator of the run carries out once
// (../control/reader-commands.ts). Plain data outside every actor, like the run's record.

import type { ReaderPosition } from "../../threads/data/reader-board.ts";

/** The reader's thread was replaced; the new thread continues at `position`. */
export interface DrainedThread {
  readonly kind: "drained";
  /** Whether the old thread was terminated in the middle of a batch. */
  readonly isForced: boolean;
  readonly position: ReaderPosition;
}

/** The result of a request. `missing`: the run no longer has this reader. */
export type ReaderAnswer = DrainedThread | { readonly kind: "missing" };

/** A request to drain one reader. */
export interface ReaderRequest {
  readonly reader: number;
  /** Called exactly once, with the result. */
  answered(answer: ReaderAnswer): void;
}

export class ReaderRequests {
  #limit = 0;
  readonly #requests = new Set<ReaderRequest>();
  readonly #keep: (limit: number) => void;
  readonly #notify: () => void;

  /**
   * `keep`: persists a limit for the next leader; `notify`: notifies the coordinator of a request.
   */
  constructor(keep: (limit: number) => void, notify: () => void) {
    this.#keep = keep;
    this.#notify = notify;
  }

  /** Limit in samples per second of all readers together; 0: no limit. */
  get limit(): number {
    return this.#limit;
  }

  set limit(samplesPerSecond: number) {
    this.#keep(samplesPerSecond);
    this.#limit = samplesPerSecond;
    this.#notify();
  }

  /** Restores the limit from a journal. */
  restore(limit: number | undefined): void {
    this.#limit = limit ?? this.#limit;
  }

  /** Pending requests, oldest first. */
  get requests(): readonly ReaderRequest[] {
    return [...this.#requests];
  }

  /** Adds a request to a reader. The returned function withdraws it. */
  add(request: ReaderRequest): () => void {
    this.#requests.add(request);
    this.#notify();
    return () => this.#requests.delete(request);
  }

  answer(request: ReaderRequest, answer: ReaderAnswer): void {
    if (this.#requests.delete(request)) request.answered(answer);
  }
}
