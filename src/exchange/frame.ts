// Headers of the frames between bridges. All control data is in headers, so that the payload is
// only bytes of the exchange.
//
//   osiris-frame:  generation  sender's host  sequence (0: the frame only acknowledges)  number of
//                  the sender's direct connections to the receiver that have ended
//   osiris-seen:   n, then exceptions: all of the receiver's sequences below n have arrived at the
//                  sender of this frame, except these
//   osiris-stamp:  when its oldest bytes were due, since 1970; then, once known, the least transit
//                  of frames from the receiver, plus 5 * 10^14; both in units of 10 µs
//   osiris-pieces: route round first bytes total, for each piece of the payload

import { FrameCorruptError } from "../errors/errors.ts";
import { headerOf } from "../wire/messages/headers.ts";
import type { Frame } from "../wire/messages/transport.ts";

/** A range of the bytes of one round of a route. */
export interface Piece {
  readonly route: number;
  readonly round: number;
  /** First byte in the route's region. */
  readonly first: number;
  readonly bytes: number;
  /** Bytes of the round, over all its pieces. */
  readonly total: number;
}

export interface ExchangeFrame {
  readonly generation: number;
  readonly from: number;
  readonly sequence: number;
  readonly seen: number;
  readonly missing: readonly number[];
  readonly pieces: readonly Piece[];
  /** Left out by transports that do not carry it. */
  readonly stamp?: FrameStamp | undefined;
}

/** Times of a frame, by the clocks of its hosts: for observers (flights.ts). */
export interface FrameStamp {
  readonly dueMs: number;
  /** Least transit of the frames that the sender received of the receiver. */
  readonly leastMs?: number | undefined;
}

/** A frame over the broker. */
export interface BrokerFrame extends ExchangeFrame {
  /** The sender's direct connections to the receiver that have ended (links/ways.ts). */
  readonly ended: number;
}

/** Most pieces in a frame, and most missing sequences that it reports: they bound its headers. */
export const piecesMax = 64;
export const missingMax = 64;

/** Small pieces are gathered into one frame up to this size: a frame costs more than the copy. */
export const gatheredBytesMax = 16 * 1024;

/** A part leaves in pieces of at least this size while the rest of it is written. */
export const aheadBytesMin = 256 * 1024;
/** Last bytes of a part, which leave when all parts are written: they end the round on the wire. */
export const tailBytes = 64;

/** Bytes of a frame that its headers may take. */
export const headerRoom = 6144;

export function encodeFrame(frame: BrokerFrame): Readonly<Record<string, string>> {
  const { generation, from, sequence, ended, seen, missing, pieces, stamp } = frame;
  const numbers = pieces.map(({ route, round, first, bytes, total }) =>
    [route, round, first, bytes, total].join(" "),
  );
  return {
    "osiris-frame": `${generation} ${from} ${sequence} ${ended}`,
    "osiris-seen": [seen, ...missing].join(" "),
    ...(stamp !== undefined && { "osiris-stamp": encodeStamp(stamp) }),
    ...(pieces.length > 0 && { "osiris-pieces": numbers.join(" ") }),
  };
}

/** Decodes a frame's headers, whose pieces must fill its payload. @throws FrameCorruptError */
export function decodeFrame(frame: Frame): BrokerFrame {
  const [generation = -1, from = -1, sequence = -1, ended = -1] = numbersOf(frame, "osiris-frame");
  const [seen = -1, ...missing] = numbersOf(frame, "osiris-seen");
  const numbers = numbersOf(frame, "osiris-pieces");
  const pieces: Piece[] = [];
  let payload = 0;
  for (let i = 0; i + 4 < numbers.length; i += 5) {
    const [route = 0, round = 0, first = 0, bytes = 0, total = 0] = numbers.slice(i, i + 5);
    pieces.push({ route, round, first, bytes, total });
    payload += bytes;
  }
  const isWhole = sequence >= 0 && ended >= 0 && seen >= 0 && numbers.length % 5 === 0;
  if (!isWhole || payload !== frame.payload.length || pieces.length > piecesMax) {
    throw new FrameCorruptError(frame.subject, "its headers are not those of the exchange");
  }
  const stamp = decodeStamp(numbersOf(frame, "osiris-stamp"));
  return { generation, from, sequence, ended, seen, missing, pieces, ...(stamp && { stamp }) };
}

/** Numbers of a header have at most 15 digits, and no sign. */
const stampMax = 1e15;
const unitsPerMs = 100;

function encodeStamp({ dueMs, leastMs }: FrameStamp): string {
  const due = Math.round(unitsPerMs * dueMs);
  const least = leastMs === undefined ? -1 : Math.round(unitsPerMs * leastMs) + stampMax / 2;
  return least < 0 || least >= stampMax ? `${due}` : `${due} ${least}`;
}

function decodeStamp([due, least]: readonly number[]): FrameStamp | undefined {
  if (due === undefined) return undefined;
  const leastMs = least === undefined ? undefined : (least - stampMax / 2) / unitsPerMs;
  return { dueMs: due / unitsPerMs, leastMs };
}

function numbersOf({ subject, headers }: Frame, name: string): number[] {
  const text = headerOf(headers, name) ?? "";
  if (text === "") return [];
  if (!/^\d{1,15}( \d{1,15})*$/.test(text)) {
    throw new FrameCorruptError(subject, `expected numbers in its header \`${name}\``);
  }
  return text.split(" ").map(Number);
}
