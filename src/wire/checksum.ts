// The checksum of what travels: a frame with a flipped bit is lost, never believed. TCP's own sum
// lets one in some billions of damaged segments through, and sees nothing of what a broker does.

import { crc32 } from "node:zlib";
import { FrameCorruptError } from "../errors.ts";
import { headerOf } from "./headers.ts";
import type { Frame } from "./transport.ts";

const name = "osiris-sum";

/** The header with the CRC-32 of a payload and of the `texts` beside it. */
export function sumHeader(payload: Uint8Array, ...texts: string[]): Record<string, string> {
  return { [name]: sumOf(payload, texts) };
}

/**
 * Holds a frame against its header; one without the header passes: other clients have none.
 * @throws FrameCorruptError
 */
export function checkSum(
  { subject, headers, payload }: Pick<Frame, "subject" | "headers" | "payload">,
  ...texts: string[]
): void {
  const found = headerOf(headers, name);
  if (found === undefined || found === sumOf(payload, texts)) return;
  throw new FrameCorruptError(subject, "its checksum is another");
}

/** Bytes of a message, with the CRC-32 of them behind. */
export function withSum(bytes: Uint8Array): Uint8Array {
  const sealed = new Uint8Array(bytes.length + 4);
  sealed.set(bytes);
  new DataView(sealed.buffer).setUint32(bytes.length, crc32(bytes), true);
  return sealed;
}

/** A message's bytes without their checksum. @throws FrameCorruptError */
export function withoutSum(subject: string, sealed: Uint8Array): Uint8Array {
  const end = sealed.length - 4;
  if (end < 0) throw new FrameCorruptError(subject, "it is too short for a message");
  const bytes = sealed.subarray(0, end);
  const view = new DataView(sealed.buffer, sealed.byteOffset, sealed.byteLength);
  if (view.getUint32(end, true) === crc32(bytes)) return bytes;
  throw new FrameCorruptError(subject, "its checksum is another");
}

function sumOf(payload: Uint8Array, texts: readonly string[]): string {
  return texts.reduce((sum, text) => crc32(text, sum), crc32(payload)).toString(16);
}
