// A blocking object store: a call returns when its requests have been answered. It runs the rules
// of rules.ts over a port, which may have several requests open at a time.

import { StoreFailedError } from "../errors/errors.ts";
import type { BlockingObjectStore, ObjectReader } from "../ports/object-store.ts";
import type { StoreAnswer, StoreRequest } from "./requests.ts";
import {
  addressOf,
  create,
  type Effect,
  fork,
  get,
  join,
  list,
  type Piece,
  piece,
  put,
  type Rule,
  rangeBytes,
  rangesAtOnce,
  remove,
  runners,
  type StorePlace,
  size,
  type Task,
} from "./rules.ts";
import { uploadTo } from "./uploads.ts";

/** Sends requests to a store, and receives the responses. */
export interface RequestPort {
  /** Sends a request. The returned function waits for the response; it need not be called. */
  send(request: StoreRequest): () => StoreAnswer;
  /** Blocks the thread. */
  pause(ms: number): void;
  close(): void;
}

export function blockingStoreOf(place: StorePlace, port: RequestPort): BlockingObjectStore {
  const run = <Result>(rule: Rule<Result>) => new Running(port, rule).result();
  const store: BlockingObjectStore = {
    address: place.address,
    get: (key, range) => owned(run(get(place, key, range))),
    size: (key) => run(size(place, key)),
    put: (key, bytes) => run(put(place, key, bytes)),
    create: (key, bytes) => run(create(place, key, bytes)),
    upload(key) {
      const { write, finish, discard } = uploadTo(place, key);
      return {
        write: (bytes) => run(write(bytes)),
        finish: () => run(finish()),
        discard: () => run(discard()),
      };
    },
    list: (prefix) => run(list(place, prefix)),
    remove: (keys) => run(remove(place, keys)),
    close: () => port.close(),
    open(key) {
      const first = run(piece(place, key, { from: 0, bytes: leapBytes }));
      return first && new Reader(place, key, first, run);
    },
  };
  runners.set(store, { place, run });
  return store;
}

/** Copies shared memory, as text cannot be decoded from it; other bytes are returned unchanged. */
function owned(bytes: Uint8Array | undefined): Uint8Array | undefined {
  return bytes?.buffer instanceof SharedArrayBuffer ? new Uint8Array(bytes) : bytes;
}

/** A rule on this thread. It runs up to its first request, then on whenever `result` is called. */
class Running<Result> {
  readonly #port: RequestPort;
  readonly #rule: Rule<Result>;
  #answer: (() => StoreAnswer) | undefined;
  #end: { readonly value: Result } | { readonly error: unknown } | undefined;

  constructor(port: RequestPort, rule: Rule<Result>) {
    [this.#port, this.#rule] = [port, rule];
    this.#advance(() => rule.next());
  }

  /** Runs the rule to its end, and returns its result. */
  result(): Result {
    while (this.#end === undefined) {
      const answer = this.#answer?.();
      this.#advance(() => this.#rule.next(answer));
    }
    if ("error" in this.#end) throw this.#end.error;
    return this.#end.value;
  }

  /** Runs the rule until it has sent a request or has ended. */
  #advance(first: () => IteratorResult<Effect, Result>): void {
    let go = first;
    this.#answer = undefined;
    while (this.#answer === undefined && this.#end === undefined) {
      try {
        const { done, value } = go();
        if (done === true) this.#end = { value };
        else go = this.#carryOut(value);
      } catch (error) {
        this.#end = { error };
      }
    }
  }

  #carryOut(effect: Effect): () => IteratorResult<Effect, Result> {
    const rule = this.#rule;
    switch (effect.kind) {
      case "send":
        this.#answer = this.#port.send(effect.request);
        return () => rule.next();
      case "pause":
        this.#port.pause(effect.ms);
        return () => rule.next();
      case "fork": {
        const task = new Running(this.#port, effect.rule);
        return () => rule.next(task);
      }
      case "join":
        try {
          const result = (effect.task as Running<unknown>).result();
          return () => rule.next(result);
        } catch (error) {
          return () => rule.throw(error);
        }
    }
  }
}

/** Fewest bytes read after a jump: a request takes as long as the transfer of some 100 KiB. */
const leapBytes = 0x4_0000;

interface Ahead {
  readonly from: number;
  readonly bytes: number;
  readonly task: Task<Piece | undefined>;
}

/**
 * Prefetches the next ranges while reads are sequential. Ranges start small and grow, so that a
 * jump discards few bytes. Memory: at most `rangesAtOnce` ranges.
 */
class Reader implements ObjectReader {
  readonly size: number;
  readonly #place: StorePlace;
  readonly #key: string;
  readonly #first: Piece;
  readonly #run: <Result>(rule: Rule<Result>) => Result;
  #ahead: Ahead[] = [];
  /** Length of the range that was requested last, and the offset of its end. */
  #bytes = leapBytes;
  #end: number;

  constructor(
    place: StorePlace,
    key: string,
    first: Piece,
    run: <Result>(rule: Rule<Result>) => Result,
  ) {
    [this.#place, this.#key, this.#first, this.#run] = [place, key, first, run];
    this.size = first.size;
    this.#end = first.bytes.length;
  }

  read(bytes: Uint8Array, at: number): number {
    const count = Math.max(0, Math.min(bytes.length, this.size - at));
    for (let read = 0; read < count; ) {
      const [from, piece] = this.#bytesAt(at + read, count - read);
      const some = piece.subarray(at + read - from).subarray(0, count - read);
      bytes.set(some, read);
      read += some.length;
    }
    return count;
  }

  close(): void {
    this.#ahead = [];
  }

  /** Returns a range that contains byte `at`, and its offset in the object. */
  #bytesAt(at: number, wanted: number): readonly [from: number, bytes: Uint8Array] {
    if (at < this.#first.bytes.length) return [0, this.#first.bytes];
    let isNext = at === this.#end;
    while (this.#ahead[0] && at >= this.#ahead[0].from + this.#ahead[0].bytes) {
      this.#ahead.shift();
      isNext ||= this.#ahead.length > 0;
    }
    const from = this.#ahead[0]?.from ?? this.size;
    if (at < from) {
      if (!isNext) this.#bytes = Math.min(rangeBytes, Math.max(leapBytes, wanted));
      this.#ahead = [];
      this.#ask(at);
    }
    while (isNext && this.#ahead.length < rangesAtOnce && this.#end < this.size) {
      this.#bytes = Math.min(rangeBytes, 2 * this.#bytes);
      this.#ask(this.#end);
    }
    const [now] = this.#ahead as [Ahead];
    const got = this.#run(join(now.task));
    if (got === undefined) {
      const cause = new Error("it was removed while it was read");
      throw new StoreFailedError("read", addressOf(this.#place, this.#key), { cause });
    }
    return [now.from, got.bytes];
  }

  #ask(from: number): void {
    const bytes = Math.min(this.#bytes, this.size - from);
    const task = this.#run(fork(piece(this.#place, this.#key, { from, bytes }, this.#first)));
    this.#ahead.push({ from, bytes, task });
    this.#end = from + bytes;
  }
}
