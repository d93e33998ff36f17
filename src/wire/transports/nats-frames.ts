// Frames of received NATS messages: their headers and checksum, and the statuses of the server.

import type { Msg } from "nats";
import { FrameCorruptError } from "../../errors/errors.ts";
import { withoutChecksum } from "../messages/checksum.ts";
import type { Frame } from "../messages/transport.ts";

/** The frame of a message; its checksum is verified. @throws FrameCorruptError */
export function frameOf(message: Msg): Frame {
  const { subject, data: payload, reply } = message;
  const headers = withoutChecksum({ subject, payload, headers: headersIn(message) });
  return { subject, payload, headers, ...(reply ? { reply } : {}) };
}

/** If a name occurs twice, the last value counts: a server appends its headers to the client's. */
function headersIn(message: Msg): Record<string, string> {
  try {
    const all = [...(message.headers ?? [])];
    return Object.fromEntries(all.map(([name, values]) => [name, values.at(-1) ?? ""]));
  } catch (cause) {
    throw new FrameCorruptError(message.subject, "its headers are none", { cause });
  }
}

/**
 * Whether the frame is the server's "no responders" status, which answers requests and has no
 * publisher.
 * @throws FrameCorruptError if the status line has any other text: our clients never write there,
 * and an unterminated header there would swallow a header that a server appends
 */
export function isStatus({ subject, data, headers }: Msg): boolean {
  if (headers === undefined || (headers.code === 0 && headers.description === "")) return false;
  if (headers.code === 503 && data.length === 0) return true;
  throw new FrameCorruptError(subject, "its headers have a status");
}
