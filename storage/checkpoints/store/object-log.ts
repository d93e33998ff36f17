// The log of a checkpoint store in an object store: small numbered records, which alone decide
// which generation and checkpoints are valid. docs/decisions/0045 has the reasons.
//
//   PREFIX/log/0000000001.json   a generation begins          generation 1, chain: none
//   PREFIX/log/0000000002.json   it commits cut 10            generation 1, chain: 10
//   PREFIX/log/0000000003.json   the next generation begins   generation 2, chain: 10
//   PREFIX/log/newest            a number to look from: written now and then, and may be stale
//
// Invariants
//   G1. A record is created only at the number after the newest one, and only if no other is there.
//       So the store orders all claims, commits and removals, and refuses those of a writer that
//       has not seen the newest: a late one finds its number taken.
//   G2. A record has the whole state at its number. So the newest one is enough.
//   G3. Records are never changed or removed. So the newest is found by probing numbers, without a
//       list of objects, which may lag.
//   G4. No two writers ever write the same bytes. So a writer that lost the answer to its request
//       recognises its own record by the bytes (`ObjectStore.create`).

import { strict as assert } from "node:assert";
import {
  CheckpointCorruptError,
  InputUnusableError,
  StoreFailedError,
} from "../../../src/errors/errors.ts";
import type { BlockingObjectStore } from "../../../src/ports/object-store.ts";
import { openSeal, parseSealed, seal } from "../../disk/sealed-json.ts";

/** Version of the records. */
const logVersion = 1;

/** A checkpoint, with the hash of its manifest. */
export interface LoggedCheckpoint {
  readonly cut: number;
  readonly generation: number;
  readonly sha256: string;
}

/** The state of the store. */
export interface LogState {
  /** The newest generation, and its job. */
  readonly generation: number;
  readonly jobIdentity: string;
  /** The checkpoint from which it continued; null: it began anew. */
  readonly from: LoggedCheckpoint | null;
  /** The chain, newest first, without checkpoints that were removed, or are about to be. */
  readonly chain: readonly LoggedCheckpoint[];
  /** Damaged checkpoints that generations passed over: they are kept, for people. */
  readonly passedOver: readonly Pick<LoggedCheckpoint, "cut" | "generation">[];
}

/** A record of the log. `kind` and `writer` are for people. */
export interface LogRecord extends LogState {
  readonly version: number;
  readonly number: number;
  readonly kind: "generation" | "commit" | "removal";
  readonly writer: string;
}

/** Records between two hints: a reader that begins at the hint probes only a few more numbers. */
const hintEvery = 16;

const hintKey = "log/newest";
const keyOf = (number: number) => `log/${String(number).padStart(10, "0")}.json`;

/** Records that this thread has written, for G4. */
let written = 0;

export class ObjectLog {
  readonly #store: BlockingObjectStore;
  readonly #writer: string;
  /** The newest record that was seen. */
  #seen: LogRecord | undefined;

  /** `writer`: the name of this thread among all (`Disk.writer`). */
  constructor(store: BlockingObjectStore, writer: string) {
    [this.#store, this.#writer] = [store, writer];
  }

  /** The newest record, as of now; undefined: there is none. Mostly one request. */
  newest(): LogRecord | undefined {
    this.#seen ??= this.#read(this.#hint()) ?? this.#read(1);
    if (this.#seen === undefined) return undefined;
    const next = this.#read(this.#seen.number + 1);
    if (next === undefined) return this.#seen;
    const last = this.#lastFrom(next.number);
    this.#seen = last === next.number ? next : this.#mustRead(last);
    return this.#seen;
  }

  /** The newest record that this log has seen, without a request. */
  get seen(): LogRecord | undefined {
    return this.#seen;
  }

  /**
   * Appends a record that was made from the record `after`; undefined: from an empty log. False:
   * another record took its number; `newest` reads it.
   */
  append(after: LogRecord | undefined, kind: LogRecord["kind"], state: LogState): boolean {
    const number = (after?.number ?? 0) + 1;
    const writer = `${this.#writer} ${++written}`; // G4
    const record: LogRecord = { version: logVersion, number, kind, ...state, writer };
    const bytes = new TextEncoder().encode(seal(record).text);
    if (!this.#store.create(keyOf(number), bytes)) return false; // G1
    this.#seen = record;
    if (kind === "generation" || number % hintEvery === 0) this.#leaveHint(number);
    return true;
  }

  /** The record with which a generation began; undefined: there is none. */
  begin(generation: number): LogRecord | undefined {
    let [low, high] = [1, this.newest()?.number ?? 0];
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      if (this.#mustRead(middle).generation < generation) low = middle + 1;
      else high = middle;
    }
    const found = this.#read(low);
    return found?.generation === generation ? found : undefined;
  }

  /** The last number with a record, from `first` on, which has one (G3). */
  #lastFrom(first: number): number {
    const isThere = (number: number) => this.#store.size(keyOf(number)) !== undefined;
    let [last, step] = [first, 1];
    for (; isThere(last + step); step *= 2) last += step;
    for (step /= 2; step >= 1; step /= 2) if (isThere(last + step)) last += step;
    return last;
  }

  #read(number: number): LogRecord | undefined {
    const bytes = number < 1 ? undefined : this.#store.get(keyOf(number));
    if (bytes === undefined) return undefined;
    const path = `${this.#store.address}/${keyOf(number)}`;
    const record = recordIn(bytes, path);
    if (record.version !== logVersion) {
      const message = `Expected version ${logVersion} in ${path}, got ${record.version}`;
      throw new InputUnusableError(path, `${message}; use the Osiris that wrote it`);
    }
    return record;
  }

  #mustRead(number: number): LogRecord {
    const record = this.#read(number);
    assert(record !== undefined, `record ${number} of the log was removed`); // G3
    return record;
  }

  #hint(): number {
    const text = new TextDecoder().decode(this.#store.get(hintKey));
    return /^\d{1,10}$/.test(text) ? Number(text) : 0;
  }

  /** Writes the hint. Failures are ignored: the record itself is in the log already. */
  #leaveHint(number: number): void {
    try {
      this.#store.put(hintKey, new TextEncoder().encode(String(number)));
    } catch (error) {
      if (error instanceof StoreFailedError || error instanceof InputUnusableError) return;
      throw error;
    }
  }
}

function recordIn(bytes: Uint8Array, path: string): LogRecord {
  try {
    return parseSealed(openSeal(bytes, path).text, path) as LogRecord;
  } catch (error) {
    if (!(error instanceof CheckpointCorruptError)) throw error;
    const advice = "put back an earlier version of this object";
    throw new CheckpointCorruptError(path, `${error.reason}; ${advice}`, { cause: error });
  }
}
