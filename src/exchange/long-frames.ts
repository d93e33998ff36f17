// Frames of any length over an all-to-all whose parts have a fixed room. The room is that of usual
// batches (src/data/ids-room.ts). If the frame of any device for any other is longer, all devices
// move their frames in as many rounds as the longest one needs, and each receiver joins the pieces
// in memory of its own. The bytes of a frame are the same either way.
//
//   part    header · piece
//   header  u32 rounds: those of the sender's longest frame; u32 words: of the sender's frame for
//           this receiver. Read in the first round.
//
// In a shape without long frames (`isLong` false) no frame can exceed its room; parts then have no
// header.
//
// Invariants
//   F1. After the first round all devices know the number of rounds, the largest of any header, so
//       that all of them take part in each round.
//   F2. A device takes part in a further round only in `finish`, or in `isThere` if that needs no
//       wait; so a device that goes on without the frame never keeps another one waiting.

import assert from "node:assert/strict";
import { FrameCorruptError } from "../errors/errors.ts";
import { bytesIn, wordsOf } from "./cells.ts";
import type { AllToAll, PartBytes, Region } from "./exchange.ts";

/** Bytes before each piece in a shape with long frames. */
export const longHeaderBytes = 8;

/** A frame from each device to each device, of any length. */
export interface FrameChannel {
  /** Begins a frame. `bytes`: room of each part, header included, as of the exchange. */
  open(bytes: PartBytes): Promise<void>;
  /** Whether `open` would resolve without waiting. */
  isFree(): boolean;
  /** Where to write the frame for device `to`, of at most `bytes` bytes. From `open` to `start`. */
  outbox(to: number, bytes: number): Region;
  /** Sends the frames. `used`: the bytes of each. */
  start(used: (to: number) => number): void;
  /** Whether `finish` would resolve without waiting. F2 */
  isThere(): Promise<boolean>;
  /** The frames of all devices, by rank. Valid until `close`. */
  finish(): Promise<readonly Region[]>;
  /** Releases the frames. `isUrgent`: as of the exchange. */
  close(isUrgent?: boolean): void;
}

export interface FrameOptions {
  readonly channel: AllToAll;
  /** The contents, as errors name them. */
  readonly what: string;
  readonly rank: number;
  readonly devices: number;
  /** Whether a frame may be longer than its part: the same on all devices. */
  readonly isLong: boolean;
}

export function createFrames(options: FrameOptions): FrameChannel {
  return options.isLong ? new LongFrames(options) : shortFrames(options);
}

/** Frames that always fit into their parts. */
function shortFrames({ channel, rank, devices }: FrameOptions): FrameChannel {
  let room: PartBytes = () => 0;
  /** The frames of the last round, if parts still have its bytes; an inbox stays in its place. */
  let frames: readonly Region[] | undefined;
  return {
    async open(bytes) {
      if (bytes !== room) frames = undefined;
      room = bytes;
      await channel.open(bytes);
    },
    isFree: () => channel.isFree(),
    outbox(to, bytes) {
      const part = channel.outbox(to);
      assert(bytes <= part.byteLength, "a frame fits into its part");
      return part;
    },
    start: (used) => channel.start(used),
    isThere: async () => channel.isThere(),
    async finish() {
      const inbox = await channel.finish();
      frames ??= partsOf(inbox, room, rank, devices);
      return frames;
    },
    close: (isUrgent) => channel.close(isUrgent),
  };
}

function partsOf(inbox: Region, room: PartBytes, rank: number, devices: number): Region[] {
  let { byteOffset } = inbox;
  return Array.from({ length: devices }, (_, from) => {
    const byteLength = room(from, rank);
    const part = { buffer: inbox.buffer, byteOffset, byteLength };
    byteOffset += byteLength;
    return part;
  });
}

class LongFrames implements FrameChannel {
  readonly #options: FrameOptions;
  #room: PartBytes = () => 0;
  /** Memory for frames that are longer than their part, by receiver and by sender. */
  readonly #outgoing: Joined[];
  readonly #incoming: Joined[];
  /** Frames to receivers whose frame is in `#outgoing`. */
  readonly #long = new Set<number>();
  #used: number[] = [];
  /** Rounds begun, rounds taken, and the rounds of all frames once the first round is taken. */
  #begun = 0;
  #taken = 0;
  #rounds = 1;
  #frames: Region[] = [];

  constructor(options: FrameOptions) {
    this.#options = options;
    this.#outgoing = Array.from({ length: options.devices }, () => new Joined());
    this.#incoming = Array.from({ length: options.devices }, () => new Joined());
  }

  async open(bytes: PartBytes): Promise<void> {
    await this.#options.channel.open(bytes);
    this.#room = bytes;
    this.#long.clear();
    [this.#begun, this.#taken, this.#rounds] = [1, 0, 1];
  }

  isFree(): boolean {
    return this.#options.channel.isFree();
  }

  outbox(to: number, bytes: number): Region {
    const part = pieceOf(this.#options.channel.outbox(to));
    if (bytes <= part.byteLength) return part;
    this.#long.add(to);
    return this.#outgoing[to]?.take(bytes) ?? part;
  }

  start(used: (to: number) => number): void {
    const { devices, rank } = this.#options;
    this.#used = Array.from({ length: devices }, (_, to) => used(to));
    const rounds = this.#used.map((bytes, to) => this.#roundsOf(bytes, rank, to));
    const most = Math.max(...rounds);
    for (const [to, bytes] of this.#used.entries()) {
      const { buffer, byteOffset } = this.#options.channel.outbox(to);
      new Uint32Array(buffer, byteOffset, 2).set([most, wordsOf(bytes)]);
    }
    this.#send();
  }

  async isThere(): Promise<boolean> {
    const { channel } = this.#options;
    while (!this.#isWhole()) {
      if (this.#begun === this.#taken) {
        if (!channel.isFree()) return false;
        await this.#goOn();
      }
      if (!channel.isThere()) return false;
      await this.#take();
    }
    return true;
  }

  async finish(): Promise<readonly Region[]> {
    while (!this.#isWhole()) {
      if (this.#begun === this.#taken) await this.#goOn();
      await this.#take();
    }
    return this.#frames;
  }

  close(isUrgent = false): void {
    this.#options.channel.close(isUrgent);
  }

  #isWhole(): boolean {
    return this.#taken === this.#rounds;
  }

  /** Begins a further round. F1 */
  async #goOn(): Promise<void> {
    await this.#options.channel.open(this.#room);
    this.#begun++;
    this.#send();
  }

  /** Sends the next piece of each frame. */
  #send(): void {
    const { channel, rank } = this.#options;
    const lengths = this.#used.map((bytes, to) => {
      const room = this.#room(rank, to) - longHeaderBytes;
      const first = (this.#begun - 1) * room;
      const length = Math.max(0, Math.min(room, bytes - first));
      if (this.#long.has(to) && length > 0) {
        bytesOf(pieceOf(channel.outbox(to))).set(this.#outgoing[to]?.piece(first, length) ?? []);
      }
      return length;
    });
    const isFirst = this.#begun === 1;
    channel.start((to) => {
      const length = lengths[to] ?? 0;
      return isFirst || length > 0 ? longHeaderBytes + length : 0;
    });
  }

  /** Takes the current round, and closes it if there are more. */
  async #take(): Promise<void> {
    const { channel, rank, devices } = this.#options;
    const parts = partsOf(await channel.finish(), this.#room, rank, devices);
    if (this.#taken === 0) this.#frames = this.#begin(parts);
    if (this.#rounds > 1) {
      for (const [from, frame] of this.#frames.entries()) {
        const part = parts[from];
        if (part === undefined) continue;
        const first = this.#taken * (part.byteLength - longHeaderBytes);
        this.#incoming[from]?.add(pieceOf(part), first, frame.byteLength);
      }
    }
    this.#taken++;
    if (!this.#isWhole()) channel.close(true);
  }

  /** Reads the headers. Returns where the frames are, or where they will be joined. */
  #begin(parts: readonly Region[]): Region[] {
    const { what, rank } = this.#options;
    const headers = parts.map(({ buffer, byteOffset }, from) => {
      const [rounds = 0, words = 0] = new Uint32Array(buffer, byteOffset, 2);
      const bytes = bytesIn(words);
      const own = this.#roundsOf(bytes, from, rank);
      if (rounds >= own) return { rounds, bytes };
      const reason = `${bytes} bytes from device ${from} in ${rounds} rounds, not ${own}`;
      throw new FrameCorruptError(what, reason);
    });
    this.#rounds = Math.max(...headers.map(({ rounds }) => rounds));
    return headers.map(({ bytes }, from) => {
      const part = parts[from];
      if (part !== undefined && this.#rounds === 1) {
        return { ...pieceOf(part), byteLength: bytes };
      }
      return this.#incoming[from]?.take(bytes) ?? nowhere;
    });
  }

  /** Rounds that a frame needs. */
  #roundsOf(bytes: number, from: number, to: number): number {
    const room = this.#room(from, to) - longHeaderBytes;
    if (bytes <= room) return 1;
    assert(room > 0, "a frame with bytes has room");
    return Math.ceil(bytes / room);
  }
}

const nowhere: Region = { buffer: new ArrayBuffer(0), byteOffset: 0, byteLength: 0 };

/** A part without its header. */
function pieceOf({ buffer, byteOffset, byteLength }: Region): Region {
  return {
    buffer,
    byteOffset: byteOffset + longHeaderBytes,
    byteLength: byteLength - longHeaderBytes,
  };
}

function bytesOf({ buffer, byteOffset, byteLength }: Region): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** Grow-only memory for one frame that is moved in pieces. */
class Joined {
  #bytes = new Uint8Array(0);

  /** Memory for a frame of `bytes` bytes; valid until the next call. */
  take(bytes: number): Region {
    // A multiple of 8, so that arrays of any type may lie over it.
    if (this.#bytes.length < bytes) this.#bytes = new Uint8Array(Math.ceil(bytes / 8) * 8);
    return { buffer: this.#bytes.buffer, byteOffset: 0, byteLength: bytes };
  }

  piece(first: number, length: number): Uint8Array {
    return this.#bytes.subarray(first, first + length);
  }

  /** Copies a piece to byte `first` of the frame; bytes beyond the frame's `bytes` are left out. */
  add(piece: Region, first: number, bytes: number): void {
    const length = Math.min(piece.byteLength, bytes - first);
    if (length > 0) this.#bytes.set(bytesOf({ ...piece, byteLength: length }), first);
  }
}
