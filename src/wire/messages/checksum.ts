// The checksum of a frame: a CRC-32 over its headers and its payload, in a header of its own. TCP's
// checksum ends at each machine, so damage inside a broker would go unnoticed without ours. A
// damaged frame counts as lost. Frames without the header, from other clients, are accepted.

import { crc32 } from "node:zlib";
import { FrameCorruptError } from "../../errors/errors.ts";
import { headerOf } from "./headers.ts";
import type { Frame } from "./transport.ts";

/** The header with the checksum: eight hexadecimal digits. */
export const checksumHeader = "osiris-crc";

/** Most bytes of the checksum in a frame: the header, and the block of headers around it. */
export const checksumBytes = `NATS/1.0\r\n${checksumHeader}: 01234567\r\n\r\n`.length;

/** The headers of a frame, with its checksum. */
export function withChecksum(
  payload: Uint8Array,
  headers: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  return { ...headers, [checksumHeader]: checksumOf(payload, headers) };
}

/** The headers of a received frame, without the checksum. @throws FrameCorruptError */
export function withoutChecksum({
  subject,
  payload,
  headers,
}: Pick<Frame, "subject" | "payload" | "headers">): Readonly<Record<string, string>> {
  const expected = headerOf(headers, checksumHeader);
  if (expected === undefined) return headers;
  const rest = Object.entries(headers).filter(([name]) => name.toLowerCase() !== checksumHeader);
  const others = Object.fromEntries(rest);
  const actual = checksumOf(payload, others);
  if (actual === expected) return others;
  throw new FrameCorruptError(subject, `its checksum is ${actual}, expected ${expected}`);
}

/** A nats-server adds this header to a request between accounts: it names the requester. */
const writtenOnTheWay = "nats-request-info";

function checksumOf(payload: Uint8Array, headers: Readonly<Record<string, string>>): string {
  const text = Object.entries(headers)
    .filter(([name]) => name.toLowerCase() !== writtenOnTheWay)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join("");
  const checksum = crc32(payload, text === "" ? 0 : crc32(text));
  return checksum.toString(16).padStart(8, "0");
}
