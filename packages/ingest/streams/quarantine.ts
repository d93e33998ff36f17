// The quarantine of bad messages: all are counted by reason; the first ones are kept with their
// stream and sequence.

import { DataRejectedError, type LineFault, sentenceOf } from "../../../internal.ts";

export interface BadMessage {
  readonly stream: string;
  readonly sequence: number;
  readonly reason: string;
}

/** The bad messages of a directory, as its position stores them. */
export interface Quarantine {
  readonly count: number;
  /** The first `quarantineMax` ones. */
  readonly kept: readonly BadMessage[];
}

/** Collects the bad messages of an ingestion. */
export class BadMessages {
  readonly #keptMax: number;
  readonly #kept: BadMessage[];
  #count: number;
  /** For the current file: number of bad messages by kind of fault, and the first of each. */
  readonly #reasons = new Map<string, { count: number; first: BadMessage }>();
  #messages = 0;

  constructor(keptMax: number, before: Quarantine = { count: 0, kept: [] }) {
    this.#keptMax = keptMax;
    this.#count = before.count;
    this.#kept = before.kept.slice(0, keptMax);
  }

  get quarantine(): Quarantine {
    return { count: this.#count, kept: [...this.#kept] };
  }

  /** Counts a message, and its fault if it has one. */
  add(stream: string, sequence: number, fault?: LineFault): void {
    this.#messages++;
    if (fault === undefined) return;
    const bad = { stream, sequence, reason: sentenceOf(fault) };
    this.#count++;
    if (this.#kept.length < this.#keptMax) this.#kept.push(bad);
    const known = this.#reasons.get(fault.kind);
    if (known === undefined) this.#reasons.set(fault.kind, { count: 1, first: bad });
    else known.count++;
  }

  /** Resets the counts for the next file. */
  beginFile(): void {
    this.#reasons.clear();
    this.#messages = 0;
  }

  /** @throws DataRejectedError where the share of the file's bad messages exceeds `rejectedMax` */
  check(rejectedMax: number): void {
    const reasons = [...this.#reasons.values()].sort((a, b) => b.count - a.count);
    const rejected = reasons.reduce((sum, { count }) => sum + count, 0);
    if (rejected <= rejectedMax * this.#messages) return;
    const examples = reasons.slice(0, 3).map(({ count, first: { stream, sequence, reason } }) => {
      return `${count} × ${reason} (${stream}, message ${sequence})`;
    });
    const message =
      `Expected a share of at most ${rejectedMax} of the messages to be bad (\`rejectedMax\`), ` +
      `got ${rejected} of ${this.#messages}: ${examples.join("; ")}. ` +
      "To continue, name the types of columns with `columns`, or raise `rejectedMax`";
    throw new DataRejectedError(message, { lines: this.#messages, rejected });
  }
}
