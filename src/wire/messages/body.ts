// Encodes and decodes a value: msgpack between programs of Osiris, JSON for messages of users.
//
// Invariants
//   B1. A length in untrusted bytes allocates no memory: before msgpack is decoded, its bytes are
//       scanned, and a list that claims more elements than there are bytes left is refused.
//   B2. A value nested deeper than `depthMax` is refused, in either form.
//   B3. An integer keeps its digits, in either form: beyond 2^53 it is a bigint.

import { decode as decodeMsgpack, encode as encodeMsgpack } from "@msgpack/msgpack";
import { FrameCorruptError } from "../../errors/errors.ts";
import { parseExactly } from "../../ports/json/exact-json.ts";
import { bodyBytesMax } from "./chunks.ts";
import { headerOf } from "./headers.ts";
import type { Frame } from "./transport.ts";

/** The two forms of a body. */
export type ContentType = "application/json" | "application/msgpack";

/** Deepest nesting of a body. Messages of Osiris have four levels. */
export const depthMax = 32;

/** A value as a payload, with the header that names its form. */
export function encodeBody(
  value: unknown,
  contentType: ContentType,
): { readonly payload: Uint8Array; readonly headers: Readonly<Record<string, string>> } {
  const payload =
    contentType === "application/json"
      ? Buffer.from(JSON.stringify(value ?? null), "utf8")
      : encodeValue(value);
  return { payload, headers: { "content-type": contentType } };
}

/** The form of a frame's body: its header's, else JSON, unless its first byte cannot begin JSON. */
export function contentTypeOf(frame: Pick<Frame, "headers" | "payload">): ContentType {
  const named = headerOf(frame.headers, "content-type")?.split(";")[0]?.trim().toLowerCase();
  if (named === "application/json") return "application/json";
  if (named === "application/msgpack") return "application/msgpack";
  const first = frame.payload[0] ?? 0;
  return first < 0x80 ? "application/json" : "application/msgpack"; // msgpack lists and maps.
}

/** The value in a frame, not checked against any schema. @throws FrameCorruptError */
export function decodeBody(frame: Pick<Frame, "subject" | "headers" | "payload">): unknown {
  if (contentTypeOf(frame) === "application/msgpack") {
    return decodeValue(frame.subject, frame.payload);
  }
  checkSize(frame.subject, frame.payload);
  let value: unknown;
  try {
    value = parseExactly(new TextDecoder("utf-8", { fatal: true }).decode(frame.payload)); // B3
  } catch (cause) {
    throw new FrameCorruptError(frame.subject, "its body is not JSON", { cause });
  }
  if (isDeeper(value, depthMax)) throw new FrameCorruptError(frame.subject, tooDeep); // B2
  return value;
}

/** A value as msgpack. Undefined fields are left out. */
export function encodeValue(value: unknown): Uint8Array {
  return encodeMsgpack(value, { ignoreUndefined: true, maxDepth: depthMax + 1 });
}

/** The value in msgpack bytes. Its byte strings are views of them. @throws FrameCorruptError */
export function decodeValue(subject: string, payload: Uint8Array): unknown {
  checkSize(subject, payload);
  const fault = faultOf(payload);
  if (fault !== undefined) throw new FrameCorruptError(subject, fault);
  try {
    return asNumbers(decodeMsgpack(payload, { useBigInt64: true }));
  } catch (cause) {
    throw new FrameCorruptError(subject, "its body is not msgpack", { cause });
  }
}

/** Converts, in place, 64-bit integers of a decoded value to numbers where float64 is exact. B3 */
function asNumbers(value: unknown): unknown {
  if (typeof value === "bigint") {
    const number = Number(value);
    return Number.isSafeInteger(number) ? number : value;
  }
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) value[i] = asNumbers(value[i]);
  } else if (value !== null && typeof value === "object") {
    if (Object.getPrototypeOf(value) !== Object.prototype) return value; // Bytes.
    const members = value as Record<string, unknown>;
    for (const name of Object.keys(members)) members[name] = asNumbers(members[name]);
  }
  return value;
}

const tooDeep = `its body is nested deeper than ${depthMax} levels`;
const tooShort = "its body ends too early";

function checkSize(subject: string, payload: Uint8Array): void {
  if (payload.length <= bodyBytesMax) return;
  const reason = `expected at most ${bodyBytesMax} bytes, got ${payload.length}`;
  throw new FrameCorruptError(subject, reason);
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (levels === 0) return true;
  return Object.values(value).some((inner) => isDeeper(inner, levels - 1));
}

/** The fault in the structure of msgpack bytes, found without decoding them. B1, B2 */
function faultOf(bytes: Uint8Array): string | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const open = [1]; // elements left, level by level
  let elements = 1; // the sum of `open`: each element takes at least a byte
  let at = 0;
  while (elements > 0) {
    while (open[open.length - 1] === 0) open.pop();
    if (at + elements > bytes.length) return tooShort;
    const item = itemAt(view, at);
    if (item === undefined) return tooShort;
    open[open.length - 1] = (open[open.length - 1] ?? 0) - 1;
    elements += item.elements - 1;
    at += item.bytes;
    if (at + elements > bytes.length) return tooShort;
    if (item.isNest) {
      if (open.length > depthMax) return tooDeep;
      open.push(item.elements);
    }
  }
  return at === bytes.length ? undefined : "bytes follow its body";
}

interface Item {
  /** Bytes of the item without its elements. */
  readonly bytes: number;
  readonly elements: number;
  readonly isNest: boolean;
}

// Bytes after the first byte 0xc0 + index. Entries of -1 carry a length of their own.
const fixedBytes = [
  0, 0, 0, 0, -1, -1, -1, -1, -1, -1, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8, 2, 3, 5, 9, 17, -1, -1, -1, -1,
  -1, -1, -1,
];

function itemAt(view: DataView, at: number): Item | undefined {
  const first = view.getUint8(at);
  if (first < 0x80 || first >= 0xe0) return plain(1);
  if (first < 0x90) return nest(1, 2 * (first & 0x0f));
  if (first < 0xa0) return nest(1, first & 0x0f);
  if (first < 0xc0) return plain(1 + (first & 0x1f));
  const fixed = fixedBytes[first - 0xc0] ?? 0;
  if (fixed >= 0) return plain(1 + fixed);
  const widthOf = { 0: 1, 1: 2, 2: 4 } as const;
  // bin, ext and str have lengths of 8, 16 and 32 bits; array and map of 16 and 32 bits only.
  if (first <= 0xc6) return sized(view, at, widthOf[(first - 0xc4) as 0 | 1 | 2], 0);
  if (first <= 0xc9) return sized(view, at, widthOf[(first - 0xc7) as 0 | 1 | 2], 1);
  if (first <= 0xdb) return sized(view, at, widthOf[(first - 0xd9) as 0 | 1 | 2], 0);
  const width = first === 0xdc || first === 0xde ? 2 : 4;
  const length = lengthAt(view, at + 1, width);
  if (length === undefined) return undefined;
  return nest(1 + width, first >= 0xde ? 2 * length : length);
}

function sized(view: DataView, at: number, width: 1 | 2 | 4, typeBytes: number): Item | undefined {
  const length = lengthAt(view, at + 1, width);
  return length === undefined ? undefined : plain(1 + width + typeBytes + length);
}

function lengthAt(view: DataView, at: number, width: 1 | 2 | 4): number | undefined {
  if (at + width > view.byteLength) return undefined;
  if (width === 1) return view.getUint8(at);
  return width === 2 ? view.getUint16(at) : view.getUint32(at);
}

function plain(bytes: number): Item {
  return { bytes, elements: 0, isNest: false };
}

function nest(bytes: number, elements: number): Item {
  return { bytes, elements, isNest: true };
}
