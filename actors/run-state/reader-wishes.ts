// What is asked of the readers of a run: a limit, which holds until it is lifted, through every
// generation; and requests to single readers, which the coordinator of the run carries out once
// (../run-control/reader-commands.ts). Plain data outside every actor, as the run's record.

import type { ReaderPosition } from "../threads/data/reader-board.ts";

/** A reader has another thread, which reads on from `position`. */
export interface DrainedThread {
  readonly kind: "drained";
  /** Whether the old thread was ended in the midst of a batch. */
  readonly isForced: boolean;
  readonly position: ReaderPosition;
}

/** The result of a request. `missing`: the run has no such reader any more. */
export type ReaderAnswer = DrainedThread | { readonly kind: "missing" };

/** A request to drain one reader. */
export interface ReaderRequest {
  readonly reader: number;
  /** Called once. */
  answered(answer: ReaderAnswer): void;
}

export class ReaderWishes {
  #limit = 0;
  readonly #requests = new Set<ReaderRequest>();
  readonly #keep: (limit: number) => void;
  readonly #tell: () => void;

  /** `keep`: has another leader find a limit; `tell`: something is asked. */
  constructor(keep: (limit: number) => void, tell: () => void) {
    this.#keep = keep;
    this.#tell = tell;
  }

  /** Most samples a second that all readers together may serve; 0: there is no limit. */
  get limit(): number {
    return this.#limit;
  }

  set limit(samplesPerSecond: number) {
    this.#keep(samplesPerSecond);
    this.#limit = samplesPerSecond;
    this.#tell();
  }

  /** Takes up what a journal has. */
  restore(limit: number | undefined): void {
    this.#limit = limit ?? this.#limit;
  }

  /** The requests that are not answered yet, oldest first. */
  get requests(): readonly ReaderRequest[] {
    return [...this.#requests];
  }

  /** Asks a reader; returns how to forget it. */
  ask(request: ReaderRequest): () => void {
    this.#requests.add(request);
    this.#tell();
    return () => this.#requests.delete(request);
  }

  answer(request: ReaderRequest, answer: ReaderAnswer): void {
    if (this.#requests.delete(request)) request.answered(answer);
  }
}
