// The reader's side of the preprocessing service: repeats requests for the splits that the reader
// needs until they arrive, and assembles splits from their parts.
//
// Invariants
//   P1. Memory is bounded by the requested splits: unrequested data is not sent.
//   P2. A split counts as received only if its blocks have the checksums of the index: lost,
//       truncated or changed parts are requested again.

import { crc32 } from "node:zlib";
import type { BlockTable } from "../../data/cache/block-table.ts";
import type { BlockReader } from "../../data/cache/blocks.ts";
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
  /** Deadline for a split, including all retries. */
  readonly deadlineMs: number;
  /**
   * Splits from workers on the same host, through shared memory; left out: all splits come in
   * frames.
   */
  readonly shelves?: ShelfReader | undefined;
}

/** How often the client repeats its requests. */
const reportMs = 250;

/** A requested split that has not arrived completely. */
interface Awaited {
  readonly split: Split;
  readonly table: BlockTable;
  readonly bytes: Uint8Array;
  readonly sinceMs: number;
  /** The parts that have arrived: the end of each, by its offset. */
  readonly parts: Map<number, number>;
  resolve(bytes: number): void;
  reject(error: unknown): void;
}

export class SplitClient {
  /**
   * Total time for which the reader has waited for splits, in milliseconds: reported to the master.
   */
  stalledMs = 0;
  readonly #options: SplitClientOptions;
  readonly #awaited = new Map<string, Awaited>();
  readonly #subscriptions: readonly Subscription[];
  #buffered = 0;
  #isReporting = false;
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
    this.#report();
  }

  /**
   * A reader of the blocks of a stream, given the block table of its index. `path`: path of the
   * index.
   */
  blocksOf(stream: Split["stream"], path: string, table: BlockTable): BlockReader {
    let bytesRead = 0;
    return {
      path,
      read: async (bytes, blocks) => {
        const read = await this.#request({ stream, ...blocks }, table, bytes);
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

  /** Stops requesting; splits that are still awaited never resolve. */
  close(): void {
    this.#isClosed = true;
    this.#cancel();
    this.#options.shelves?.close();
    for (const one of this.#subscriptions) one.unsubscribe();
  }

  #request({ stream, first, end }: Split, table: BlockTable, bytes: Uint8Array): Promise<number> {
    const split = { stream, first, end };
    return new Promise((resolve, reject) => {
      const sinceMs = this.#options.clock.now();
      const parts = new Map<number, number>();
      const own = { split, table, bytes, sinceMs, parts, resolve, reject };
      this.#awaited.set(nameOf(split), own);
      this.#reportSoon();
    });
  }

  /** Sends one request for all splits that are requested in one event-loop turn. */
  #reportSoon(): void {
    if (this.#isReporting) return;
    this.#isReporting = true;
    queueMicrotask(() => {
      this.#isReporting = false;
      this.#report();
    });
  }

  #report(): void {
    this.#cancel();
    if (this.#isClosed) return;
    const { transport, place, reader, clock, deadlineMs } = this.#options;
    for (const [name, one] of this.#awaited) {
      if (clock.now() - one.sinceMs <= deadlineMs) continue;
      this.#awaited.delete(name);
      one.reject(new StepTimeoutError(waitFor(name), deadlineMs));
    }
    const splits = [...this.#awaited.values()].map(({ split }) => split);
    const need = { reader, splits, buffered: this.#buffered, stalledMs: this.stalledMs };
    const { payload, headers } = encodeFrame("want", need);
    transport.publish(masterSubject(place, "want"), payload, { headers });
    this.#cancel = clock.after(reportMs, () => this.#report());
  }

  /** A part of a split: `payload` is its bytes. */
  #take({ split, at, bytes }: SplitPart, payload: Uint8Array): void {
    const one = this.#awaited.get(nameOf(split));
    const end = at + payload.length;
    if (one === undefined || (one.parts.get(at) ?? at) >= end) return; // A duplicate.
    if (bytes !== one.bytes.length) return; // From another index.
    one.bytes.set(payload, at);
    one.parts.set(at, end);
    if (coveredBytes(one.parts) < bytes) return;
    if (!areWhole(one)) {
      one.parts.clear(); // P2
      return;
    }
    this.#awaited.delete(nameOf(split));
    one.resolve(bytes);
    this.#reportSoon();
  }

  #lose(frame: Frame): void {
    const { split, error } = decodeFrame("failed", frame);
    const name = nameOf(split);
    const one = this.#awaited.get(name);
    if (one === undefined) return;
    this.#awaited.delete(name);
    // These errors carry their own advice; a damaged index is rebuilt after a restore.
    const isKnown = error.recovery === "stop" || error.code === "DATA_CACHE_DAMAGED";
    one.reject(isKnown ? new RemoteError(error) : new SplitFailedError(name, error.message));
  }
}

/** Describes what a reader waits for, with advice. */
function waitFor(split: string): string {
  const advice = "start `osiris dpp-worker`, or raise `preprocessing.workersMin`, where none runs";
  return `split ${split} of a preprocessing worker; ${advice}`;
}

/** The bytes in any of the parts. Workers cut a split differently, so their parts may overlap. */
function coveredBytes(parts: Awaited["parts"]): number {
  let [bytes, last] = [0, 0];
  for (const [at, end] of [...parts].sort(([a], [b]) => a - b)) {
    bytes += Math.max(0, end - Math.max(at, last));
    last = Math.max(last, end);
  }
  return bytes;
}

/** Whether all blocks have the checksums of the index. */
function areWhole({ split, table, bytes }: Awaited): boolean {
  let at = 0;
  for (let block = split.first; block < split.end; block++) {
    const end = at + 4 * table.wordsOf(block);
    if (crc32(bytes.subarray(at, end)) !== table.crcOf(block)) return false;
    at = end;
  }
  return at === bytes.length;
}
