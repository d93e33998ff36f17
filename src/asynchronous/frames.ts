// The frames between trainers and parameter servers, in little-endian 32-bit words (docs/wire.md):
//
//   "OSRP" | kind | sender | number | piece | step | parts | 0 | plateau f64
//   | per part: id, ints, floats | ints of all parts | floats of all parts
//
// A part is a shard with its rows and vectors, or a dense tensor with its floats.

import { FrameCorruptError } from "../errors/errors.ts";

const kinds = ["pull", "push", "exchange", "center", "state", "answer"] as const;

export interface ParameterFrame {
  readonly kind: (typeof kinds)[number];
  readonly sender: number;
  readonly number: number;
  readonly piece: number;
  readonly step: number;
  readonly plateau: number;
  readonly parts: readonly FramePart[];
}

export interface FramePart {
  readonly id: number;
  readonly ints: Int32Array;
  readonly floats: Float32Array;
}

const magic = 0x5052_534f;
export const headerWords = 10;
export const partWords = 3;
export const noInts = new Int32Array(0);
export const noFloats = new Float32Array(0);

/** Makes a frame. Default of the fields: 0, no parts, and 1 for `plateau`. */
export function frameOf(
  kind: ParameterFrame["kind"],
  fields: Partial<Omit<ParameterFrame, "kind">> = {},
): ParameterFrame {
  return { kind, sender: 0, number: 0, piece: 0, step: 0, plateau: 1, parts: [], ...fields };
}

export function encodeFrame(frame: ParameterFrame): Uint8Array {
  const { kind, sender, number, piece, step, plateau, parts } = frame;
  let words = headerWords + partWords * parts.length;
  for (const { ints, floats } of parts) words += ints.length + floats.length;
  const all = new Int32Array(words);
  all.set([magic, kinds.indexOf(kind), sender, number, piece, step, parts.length]);
  new Float64Array(all.buffer, 4 * (headerWords - 2), 1)[0] = plateau;
  let at = headerWords;
  for (const { id, ints, floats } of parts) {
    all.set([id, ints.length, floats.length], at);
    at += partWords;
  }
  for (const { ints } of parts) {
    all.set(ints, at);
    at += ints.length;
  }
  const floatsOf = new Float32Array(all.buffer);
  for (const { floats } of parts) {
    floatsOf.set(floats, at);
    at += floats.length;
  }
  return new Uint8Array(all.buffer);
}

/** @throws FrameCorruptError where the lengths of a frame disagree */
export function decodeFrame(subject: string, payload: Uint8Array): ParameterFrame {
  const refuse = (reason: string) => new FrameCorruptError(subject, reason);
  if (payload.length % 4 !== 0 || payload.length < 4 * headerWords) {
    throw refuse(`${payload.length} bytes are no frame of a parameter server`);
  }
  const all = new Int32Array(new Uint8Array(payload).buffer); // A copy: it may be a Buffer.
  const [first, code = -1, sender = 0, number = 0, piece = 0, step = 0, count = -1] = all;
  const kind = kinds[code];
  if (first !== magic || kind === undefined) throw refuse("it begins otherwise than expected");
  const end = headerWords + partWords * count;
  if (count < 0 || end > all.length) throw refuse(`it announces ${count} parts`);
  let words = end;
  const sizes: { id: number; ints: number; floats: number }[] = [];
  for (let at = headerWords; at < end; at += partWords) {
    const [id = 0, ints = -1, floats = -1] = all.subarray(at, at + partWords);
    if (ints < 0 || floats < 0) throw refuse(`a part of ${ints} rows and ${floats} floats`);
    words += ints + floats;
    sizes.push({ id, ints, floats });
  }
  if (words !== all.length) throw refuse(`it has ${all.length} words, and announces ${words}`);
  let atInts = end;
  let atFloats = end + sizes.reduce((sum, { ints }) => sum + ints, 0);
  const parts = sizes.map(({ id, ints, floats }): FramePart => {
    const part = {
      ...{ id, ints: all.subarray(atInts, atInts + ints) },
      floats: new Float32Array(all.buffer, 4 * atFloats, floats),
    };
    [atInts, atFloats] = [atInts + ints, atFloats + floats];
    return part;
  });
  const [plateau = 1] = new Float64Array(all.buffer, 4 * (headerWords - 2), 1);
  return { kind, sender, number, piece, step, plateau, parts };
}
