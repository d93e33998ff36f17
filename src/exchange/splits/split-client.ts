// The reader's side of the preprocessing service: says which splits the reader needs until it has
// them, and puts their parts together.
//
// Invariants
//   P1. Memory is that of the splits that were asked for: nothing is sent that nobody asked for.
//   P2. Blocks count when their checksums are those of the index: what is lost, cut off or changed
//       on the way is asked for again.

import { crc32 } from "node:zlib";
import type { BlockReader } from "../../data/cache/blocks.ts";
import type { BlockTable } from "../../data/cache/cache-format.ts";
import { RemoteError, SplitFailedError, StepTimeoutError } from "../../errors/errors.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Frame, Subscription, Transport } from "../../wire/messages/transport.ts";
import {
  decodeFrame,
  encodeFrame,
  masterSubject,
  nameOf,
  partOf,
  readerSubject,
  type Split,
  type SplitPart,
  type SplitPlace,
} from "./split-frames.ts";
import type { ShelfReader } from "./split-shelves.ts";

export interface SplitClientOptions {
  readonly transport: Transport;
  readonly place: SplitPlace;
  readonly reader: number;
  readonly clock: Clock;
  /** How long a split may take, with all that goes wrong meanwhile. */
  readonly deadlineMs: number;
  /** What comes from the workers of its host; left out: all splits come in frames. */
  readonly shelves?: ShelfReader | undefined;
}

/** How often it says what it needs. */
const sayMs = 250;

/** A split on its way. */
interface Awaited {
  readonly split: Split;
  readonly table: BlockTable;
  readonly bytes: Uint8Array;
  readonly sinceMs: number;
  /** Where parts begin that are here. */
  readonly parts: Set<number>;
  arrived: number;
  resolve(bytes: number): void;
  reject(error: unknown): void;
}

export class SplitClient {
  /** How long the reader has waited for splits so far, in milliseconds: told to the master. */
  stalledMs = 0;
  readonly #options: SplitClientOptions;
  readonly #awaited = new Map<string, Awaited>();
  readonly #subscriptions: readonly Subscription[];
  #buffered = 0;
  #isSaying = false;
  #isClosed = false;
  #cancel = () => {};

  constructor(options: SplitClientOptions) {
    const { transport, place, reader, shelves } = options;
    this.#options = options;
    this.#subscriptions = [
      transport.subscribe(readerSubject(place, reader, "data"), (frame) =>
        this.#take(partOf(frame), frame.payload),
      ),
      transport.subscribe(readerSubject(place, reader, "failed"), (frame) => this.#lose(frame)),
    ];
    void shelves?.serve((part, bytes) => this.#take(part, bytes));
    this.#say();
  }

  /** The blocks of a stream whose index has this table. `path`: of the index. */
  blocksOf(stream: Split["stream"], path: string, table: BlockTable): BlockReader {
    let bytesRead = 0;
    return {
      path,
      read: async (bytes, blocks) => {
        const read = await this.#ask({ stream, ...blocks }, table, bytes);
        bytesRead += read;
        return read;
      },
      get bytesRead() {
        return bytesRead;
      },
      ahead: (count) => {
        if (stream === "training") this.#buffered = count;
      },
      close() {},
    };
  }

  /** Asks for nothing more; what is awaited never comes. */
  close(): void {
    this.#isClosed = true;
    this.#cancel();
    this.#options.shelves?.close();
    for (const one of this.#subscriptions) one.unsubscribe();
  }

  #ask({ stream, first, end }: Split, table: BlockTable, bytes: Uint8Array): Promise<number> {
    const split = { stream, first, end };
    return new Promise((resolve, reject) => {
      const sinceMs = this.#options.clock.now();
      const parts = new Set<number>();
      const own = { split, table, bytes, sinceMs, parts, arrived: 0, resolve, reject };
      this.#awaited.set(nameOf(split), own);
      this.#saySoon();
    });
  }

  /** Once for all that is asked for at one moment. */
  #saySoon(): void {
    if (this.#isSaying) return;
    this.#isSaying = true;
    queueMicrotask(() => {
      this.#isSaying = false;
      this.#say();
    });
  }

  #say(): void {
    this.#cancel();
    if (this.#isClosed) return;
    const { transport, place, reader, clock, deadlineMs } = this.#options;
    for (const [name, one] of this.#awaited) {
      if (clock.now() - one.sinceMs <= deadlineMs) continue;
      this.#awaited.delete(name);
      one.reject(new StepTimeoutError(waitFor(name), deadlineMs));
    }
    const splits = [...this.#awaited.values()].map(({ split }) => split);
    const said = { reader, splits, buffered: this.#buffered, stalledMs: this.stalledMs };
    const { payload, headers } = encodeFrame("want", said);
    transport.publish(masterSubject(place, "want"), payload, { headers });
    this.#cancel = clock.after(sayMs, () => this.#say());
  }

  /** A part of a split: `payload` is its bytes. */
  #take({ split, at, bytes }: SplitPart, payload: Uint8Array): void {
    const one = this.#awaited.get(nameOf(split));
    if (one === undefined || one.parts.has(at)) return; // It came before.
    if (bytes !== one.bytes.length) return; // Of another index.
    one.bytes.set(payload, at);
    one.parts.add(at);
    one.arrived += payload.length;
    if (one.arrived < bytes) return;
    if (!areWhole(one)) {
      one.parts.clear(); // P2
      one.arrived = 0;
      return;
    }
    this.#awaited.delete(nameOf(split));
    one.resolve(bytes);
    this.#saySoon();
  }

  #lose(frame: Frame): void {
    const { split, error } = decodeFrame("failed", frame);
    const name = nameOf(split);
    const one = this.#awaited.get(name);
    if (one === undefined) return;
    this.#awaited.delete(name);
    // It says itself what is wrong, and what to do; a damaged index is made anew after a restore.
    const isKnown = error.recovery === "stop" || error.code === "DATA_CACHE_DAMAGED";
    one.reject(isKnown ? new RemoteError(error) : new SplitFailedError(name, error.message));
  }
}

/** What a reader waits for, with what may be missing. */
function waitFor(split: string): string {
  const advice = "start `osiris dpp-worker`, or raise `preprocessing.workersMin`, where none runs";
  return `split ${split} of a preprocessing worker; ${advice}`;
}

/** Whether all blocks are those of the index. */
function areWhole({ split, table, bytes }: Awaited): boolean {
  let at = 0;
  for (let block = split.first; block < split.end; block++) {
    const end = at + 4 * (table[2 * block] ?? 0);
    if (crc32(bytes.subarray(at, end)) !== table[2 * block + 1]) return false;
    at = end;
  }
  return at === bytes.length;
}
