// Chunks: a payload that is larger than a frame travels as several frames on the same subject. Each
// has the payload's other headers, a part of its bytes, and this header:
//
//   osiris-chunk: <index>/<count> <bytes> <sha256>     of the whole payload, in hexadecimal digits
//
// All chunks have ⌈bytes / count⌉ bytes, except the last, which has the rest.
//
// Invariants
//   C1. The announced size of a payload allocates no memory, since a sender may lie: only chunks
//       that have arrived take memory, and count.
//   C2. A receiver holds at most `heldBytesMax` bytes; beyond that, the payload that has waited
//       longest is dropped, as if its frames were lost.
//   C3. Only a payload with the announced hash is delivered. Chunks may be lost, repeated and
//       reordered: a sender that repeats its message fills the gaps of its first attempt.
//   C4. A payload that is whole is kept for a while, and delivered again with each repetition of
//       its last chunk: a repeated request has a new reply subject, which that chunk alone carries.

import { createHash } from "node:crypto";
import { FrameCorruptError, FrameTooLargeError } from "../../errors/errors.ts";
import type { Cancel, Clock } from "../../ports/clock.ts";
import { headerBytesOf, headerOf } from "./headers.ts";
import type { Frame } from "./transport.ts";

/** The header of a chunk. */
export const chunkHeader = "osiris-chunk";

/** Largest payload in chunks: plan, job and manifest of 10,000 tables need a fifth of it. */
export const bodyBytesMax = 64 * 1024 * 1024;

/** Most chunks of a payload: 64 KiB each for the largest. */
const chunksMax = 1024;

/** Bytes of payloads that one connection holds: two of the largest. C2 */
const heldBytesMax = 2 * bodyBytesMax;

/** Bytes that a payload counts in addition to its chunks. */
const keptBytes = 1024;

/** A payload without a new chunk for this time is dropped: its sender will send no more. */
const restMs = 30_000;

interface ChunkPlace {
  readonly index: number;
  readonly count: number;
  /** Size and hash of the whole payload. */
  readonly bytes: number;
  readonly sha256: string;
}

/** One frame of a payload in chunks. */
export interface Chunk {
  readonly payload: Uint8Array;
  readonly headers: Readonly<Record<string, string>>;
}

/** The chunks of a payload, as views of it. @throws FrameTooLargeError */
export function chunksOf(
  payload: Uint8Array,
  headers: Readonly<Record<string, string>> | undefined,
  frameBytesMax: number,
): Chunk[] {
  const bytes = payload.length;
  if (bytes > bodyBytesMax) throw new FrameTooLargeError(bytes, bodyBytesMax);
  const sha256 = hashOf(payload);
  const headerFor = (at: Omit<ChunkPlace, "bytes" | "sha256">) => {
    return { ...headers, [chunkHeader]: `${at.index}/${at.count} ${bytes} ${sha256}` };
  };
  const largest = headerFor({ index: chunksMax, count: chunksMax });
  const room = frameBytesMax - headerBytesOf(largest);
  const count = Math.ceil(bytes / Math.max(1, room));
  if (count > chunksMax) throw new FrameTooLargeError(bytes, Math.max(0, room) * chunksMax);
  const size = Math.ceil(bytes / count);
  return Array.from({ length: count }, (_, index) => ({
    payload: payload.subarray(index * size, (index + 1) * size),
    headers: headerFor({ index, count }),
  }));
}

/** A payload of which chunks have arrived. */
interface Held {
  /** By index; empty once the payload is whole. */
  readonly parts: (Uint8Array | undefined)[];
  missing: number;
  whole: Uint8Array | undefined;
  heldBytes: number;
  /** The newest frame with a reply subject; if none has one, the newest frame. */
  frame: Frame;
  cancel: Cancel;
}

/** Assembles the payloads of one connection from chunks. */
export class ChunkAssembler {
  readonly #clock: Clock;
  /** By subject, payload and receiver, in the order of their newest chunks, oldest first. */
  readonly #held = new Map<string, Held>();
  #heldBytes = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Bytes of the payloads that it holds. */
  get heldBytes(): number {
    return this.#heldBytes;
  }

  /**
   * Takes a received frame; returns the whole frame that it completes or repeats, if any. A frame
   * that is not a chunk is whole. `receiver`: the subscription or request that received it.
   * @throws FrameCorruptError
   */
  add(frame: Frame, receiver: number): Frame | undefined {
    const text = headerOf(frame.headers, chunkHeader);
    if (text === undefined) return frame;
    const place = placeIn(frame, text);
    const { index, count } = place;
    const key = `${receiver} ${frame.subject} ${count} ${place.bytes} ${place.sha256}`;
    const one = this.#held.get(key) ?? this.#begin(count, frame);
    this.#held.delete(key); // Reinserted below as the newest.
    this.#held.set(key, one);
    one.cancel();
    one.cancel = this.#clock.after(restMs, () => this.#drop(key));
    if (frame.reply !== undefined || one.frame.reply === undefined) one.frame = frame;
    const isRepeated = one.whole !== undefined && index === count - 1; // C4
    if (one.whole === undefined && one.parts[index] === undefined) {
      one.parts[index] = frame.payload;
      one.missing--;
      one.heldBytes += frame.payload.length;
      this.#heldBytes += frame.payload.length;
    }
    let payload = isRepeated ? one.whole : undefined;
    if (one.whole === undefined && one.missing === 0) {
      payload = Buffer.concat(one.parts.map((part) => part ?? new Uint8Array()));
      one.whole = payload;
      one.parts.length = 0;
      const actual = hashOf(payload);
      if (actual !== place.sha256) {
        this.#drop(key); // C3
        const reason = `the SHA-256 of its chunks is ${actual}, expected ${place.sha256}`;
        throw new FrameCorruptError(frame.subject, reason);
      }
    }
    for (const [oldest] of this.#held) {
      if (this.#heldBytes <= heldBytesMax) break;
      this.#drop(oldest); // C2
    }
    return payload && wholeOf(one.frame, payload);
  }

  /** Drops the payloads of a receiver; undefined: those of all receivers. */
  forget(receiver?: number): void {
    for (const key of [...this.#held.keys()]) {
      if (receiver === undefined || key.startsWith(`${receiver} `)) this.#drop(key);
    }
  }

  #begin(count: number, frame: Frame): Held {
    const heldBytes = keptBytes + 8 * count;
    this.#heldBytes += heldBytes;
    const parts = new Array<Uint8Array | undefined>(count);
    return { parts, missing: count, whole: undefined, heldBytes, frame, cancel: () => {} };
  }

  #drop(key: string): void {
    const one = this.#held.get(key);
    if (one === undefined) return;
    one.cancel();
    this.#heldBytes -= one.heldBytes;
    this.#held.delete(key);
  }
}

/** The frame of a payload, with bytes that its receiver may keep. */
function wholeOf(frame: Frame, payload: Uint8Array): Frame {
  const others = Object.entries(frame.headers).filter(
    ([name]) => name.toLowerCase() !== chunkHeader,
  );
  return { ...frame, payload: new Uint8Array(payload), headers: Object.fromEntries(others) };
}

/** The place of a chunk, checked against its payload. C1 @throws FrameCorruptError */
function placeIn({ subject, payload }: Frame, text: string): ChunkPlace {
  const found = /^(\d{1,4})\/(\d{1,4}) (\d{1,8}) ([0-9a-f]{64})$/.exec(text);
  const [index, count, bytes] = (found?.slice(1, 4) ?? []).map(Number);
  const sha256 = found?.[4];
  if (index === undefined || count === undefined || bytes === undefined || sha256 === undefined) {
    throw new FrameCorruptError(subject, `its \`${chunkHeader}\` names no chunk`);
  }
  const size = Math.ceil(bytes / count);
  const isPossible = index < count && count <= chunksMax && bytes <= bodyBytesMax;
  const expected = Math.min(size, bytes - index * size);
  if (!isPossible || payload.length !== expected || expected <= 0) {
    const reason = `chunk ${index} of ${count} of ${bytes} bytes cannot have ${payload.length}`;
    throw new FrameCorruptError(subject, reason);
  }
  return { index, count, bytes, sha256 };
}

function hashOf(payload: Uint8Array): string {
  return createHash("sha256").update(payload).digest("hex");
}
