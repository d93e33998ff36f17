// The wire format of frames on a direct link (docs/wire.md): little-endian, a header with a
// checksum of its own, then the payload, which is only bytes of the exchange.
//
//    0  CRC-32C of the rest of the header       24  seen, 8 bytes
//    4  bytes of the payload                    32  stamp (frame.ts), two float64; NaN: unknown
//    8  CRC-32C of the payload                  48  missing sequences, 8 bytes each
//   12  pieces, 2 bytes                             pieces, 32 bytes each: route, round, bytes,
//   14  missing sequences, 2 bytes                  zero, then 8 bytes each: first, total
//   16  sequence, 8 bytes; 0: it only acknowledges
//
// native/links/frames.h has the same format and the same rules, in C++.
//
// Invariants
//   F1. No byte of a payload is taken before the checksum of its header is verified.
//   F2. No byte is written outside the regions of the sender's routes.
//   F3. Sequences ascend (D1 of direct-links.ts).

import { crc32c } from "../../ports/crc32c.ts";
import type { Extent } from "../exchange.ts";
import { type ExchangeFrame, missingMax, type Piece, piecesMax } from "../frame.ts";
import type { DirectFrame } from "./direct-links.ts";

/** Largest payload: enough that a frame's own cost does not matter, and a resend is short. */
export const linkFrameBytesMax = 2 ** 20;

const headBytes = 48;
const pieceBytes = 32;
export const headerBytesMax = headBytes + 8 * missingMax + pieceBytes * piecesMax;

/** Why a receiver ends a connection. It sends the reason as a number: the index in this list. */
export const endings = {
  cut: "it was cut",
  closed: "the other host ended it",
  header: "a frame's header has a wrong checksum",
  payload: "a frame's payload has a wrong checksum",
  misfit: "a frame does not fit into the routes of its sender",
  order: "a frame's sequence does not follow the one before",
} as const;

export type Ending = keyof typeof endings;

export const endingNames = Object.keys(endings) as readonly Ending[];

/** The last bytes that a receiver sends: it says why it ended the connection. */
export const farewellBytes = 4;
const farewellMark = 0x4c534f00; // "OSL", after the number.

export function encodeFarewell(ending: Ending): Buffer {
  const bytes = Buffer.alloc(farewellBytes);
  bytes.writeUInt32LE(farewellMark + endingNames.indexOf(ending));
  return bytes;
}

/** `cut` where these bytes are no farewell. */
export function decodeFarewell(bytes: Buffer): Ending {
  if (bytes.length !== farewellBytes) return "cut";
  return endingNames[bytes.readUInt32LE() - farewellMark] ?? "cut";
}

/** A frame broke a rule of the format: its connection ends. */
export class BrokenRule extends Error {
  readonly ending: Ending;

  constructor(ending: Ending) {
    super(endings[ending]);
    this.ending = ending;
  }
}

/** The header of a frame. Left out, its payload's length and checksums are completed natively. */
export function encodeHeader(
  { sequence, seen, missing, pieces, stamp }: DirectFrame,
  payload?: { readonly bytes: number; readonly crc: number },
): Buffer {
  const header = Buffer.alloc(headBytes + 8 * missing.length + pieceBytes * pieces.length);
  header.writeUInt16LE(pieces.length, 12);
  header.writeUInt16LE(missing.length, 14);
  writeLong(header, sequence, 16);
  writeLong(header, seen, 24);
  header.writeDoubleLE(stamp?.dueMs ?? Number.NaN, 32);
  header.writeDoubleLE(stamp?.leastMs ?? Number.NaN, 40);
  for (const [i, one] of missing.entries()) writeLong(header, one, headBytes + 8 * i);
  let at = headBytes + 8 * missing.length;
  for (const { route, round, first, bytes, total } of pieces) {
    header.writeUInt32LE(route, at);
    header.writeUInt32LE(round, at + 4);
    header.writeUInt32LE(bytes, at + 8);
    writeLong(header, first, at + 16);
    writeLong(header, total, at + 24);
    at += pieceBytes;
  }
  if (payload === undefined) return header;
  header.writeUInt32LE(payload.bytes, 4);
  header.writeUInt32LE(payload.crc, 8);
  header.writeUInt32LE(crc32c(header.subarray(4)));
  return header;
}

/**
 * A frame that arrived, without the generation and the sender, which follow from its connection.
 */
export type ArrivedFrame = Omit<ExchangeFrame, "generation" | "from">;

interface Header {
  readonly frame: ArrivedFrame;
  readonly payloadBytes: number;
  readonly payloadCrc: number;
}

/** Decodes a whole header, whose checksum is verified. */
export function decodeHeader(header: Buffer): Header {
  const missingCount = header.readUInt16LE(14);
  const [dueMs, leastMs] = [header.readDoubleLE(32), header.readDoubleLE(40)];
  const stamp = { dueMs, leastMs: Number.isNaN(leastMs) ? undefined : leastMs };
  const missing: number[] = [];
  const pieces: Piece[] = [];
  let at = headBytes;
  for (; missing.length < missingCount; at += 8) missing.push(readLong(header, at));
  for (; at < header.length; at += pieceBytes) {
    pieces.push({
      route: header.readUInt32LE(at),
      round: header.readUInt32LE(at + 4),
      bytes: header.readUInt32LE(at + 8),
      first: readLong(header, at + 16),
      total: readLong(header, at + 24),
    });
  }
  return {
    payloadBytes: header.readUInt32LE(4),
    payloadCrc: header.readUInt32LE(8),
    frame: {
      ...{ sequence: readLong(header, 16), seen: readLong(header, 24), missing, pieces },
      ...(Number.isFinite(dueMs) && { stamp }),
    },
  };
}

function writeLong(to: Buffer, value: number, at: number): void {
  to.writeUInt32LE(value % 2 ** 32, at);
  to.writeUInt32LE(Math.floor(value / 2 ** 32), at + 4);
}

/** Beyond 2^53 it is inexact, and then larger than any region. */
function readLong(from: Buffer, at: number): number {
  return from.readUInt32LE(at) + 2 ** 32 * from.readUInt32LE(at + 4);
}

/** Puts the frames of one connection into the exchange's memory as their bytes arrive. */
export class FrameReader {
  readonly #memory: ArrayBufferLike;
  readonly #regions: ReadonlyMap<number, Extent>;
  readonly #buffer = Buffer.alloc(headerBytesMax);
  #buffered = 0;
  /** The frame whose payload is arriving, and how far it is written. */
  #arriving: { readonly header: Header; piece: number; written: number; crc: number } | undefined;
  #sequence = 0;

  constructor(memory: ArrayBufferLike, regions: ReadonlyMap<number, Extent>) {
    this.#memory = memory;
    this.#regions = regions;
  }

  /** Takes the next bytes, and adds the frames that are whole now. @throws BrokenRule */
  take(chunk: Uint8Array, whole: ArrivedFrame[]): void {
    for (let at = 0; at < chunk.length; ) {
      at += this.#arriving === undefined ? this.#takeHeader(chunk, at) : this.#takePiece(chunk, at);
      const arriving = this.#arriving;
      if (arriving === undefined || arriving.piece < arriving.header.frame.pieces.length) continue;
      if (arriving.crc !== arriving.header.payloadCrc) throw new BrokenRule("payload");
      whole.push(arriving.header.frame);
      this.#arriving = undefined;
    }
  }

  #takeHeader(chunk: Uint8Array, at: number): number {
    const isHead = this.#buffered < headBytes;
    const wanted = isHead ? headBytes : this.#headerBytes();
    const some = chunk.subarray(at, at + wanted - this.#buffered);
    this.#buffer.set(some, this.#buffered);
    this.#buffered += some.length;
    if (this.#buffered < headBytes || this.#buffered < this.#headerBytes()) return some.length;
    const bytes = this.#buffer.subarray(0, this.#buffered);
    if (crc32c(bytes.subarray(4)) !== bytes.readUInt32LE()) throw new BrokenRule("header"); // F1
    const header = decodeHeader(bytes);
    this.#check(header);
    this.#buffered = 0;
    this.#arriving = { header, piece: 0, written: 0, crc: 0 };
    this.#skipEmpty();
    return some.length;
  }

  /** Bytes of the header whose head is buffered. */
  #headerBytes(): number {
    const pieces = this.#buffer.readUInt16LE(12);
    const missing = this.#buffer.readUInt16LE(14);
    if (pieces > piecesMax || missing > missingMax) throw new BrokenRule("header");
    return headBytes + 8 * missing + pieceBytes * pieces;
  }

  #check({ payloadBytes, frame: { sequence, pieces } }: Header): void {
    let sum = 0;
    for (const { route, first, bytes, total } of pieces) {
      const region = this.#regions.get(route);
      const fits = region !== undefined && bytes <= total && first + bytes <= region.bytes;
      if (!fits) throw new BrokenRule("misfit"); // F2
      sum += bytes;
    }
    if (sum !== payloadBytes || sum > linkFrameBytesMax) throw new BrokenRule("misfit");
    if (sequence === 0 ? pieces.length > 0 : sequence <= this.#sequence) {
      throw new BrokenRule("order"); // F3
    }
    if (sequence > 0) this.#sequence = sequence;
  }

  #takePiece(chunk: Uint8Array, at: number): number {
    const arriving = this.#arriving;
    const piece = arriving?.header.frame.pieces[arriving.piece];
    const region = this.#regions.get(piece?.route ?? -1);
    if (arriving === undefined || piece === undefined || region === undefined) return 0;
    const some = chunk.subarray(at, at + piece.bytes - arriving.written);
    const first = region.first + piece.first + arriving.written;
    new Uint8Array(this.#memory, first, some.length).set(some);
    arriving.crc = crc32c(some, arriving.crc);
    arriving.written += some.length;
    if (arriving.written === piece.bytes) {
      arriving.written = 0;
      arriving.piece++;
      this.#skipEmpty();
    }
    return some.length;
  }

  #skipEmpty(): void {
    const arriving = this.#arriving;
    while (arriving?.header.frame.pieces[arriving.piece]?.bytes === 0) arriving.piece++;
  }
}
