// The last messages of one actor for inspection: type, sender, age, size, and abbreviated content
// without secrets or tensor data.

import { z } from "zod";
import { checkOptions } from "../../src/ports/check-options.ts";
import type { Mailbox } from "../runtime/mailbox.ts";
import { redaction } from "./process-log.ts";

/** A message that an actor received. */
export interface ReceivedMessage {
  readonly type: string;
  /** `coordinator:0` */
  readonly from: string;
  /** Age of the message. */
  readonly agoMs: number;
  /** Size of the frame. */
  readonly bytes: number;
  /**
   * Abbreviated content, as JSON with long lists replaced by their length; undefined: the frame was
   * too large.
   */
  readonly text?: string;
}

const question = z.strictObject({
  /** Index of the process's host; null: the leader, if it has no devices. */
  host: z.int().min(0).nullable().default(null),
  /** `device:1` */
  actor: z.string().min(1).max(64),
  run: z.string().min(1).max(128).optional(),
});

/** Validates the request for an actor's messages. @throws InvalidOptionError */
export const messagesQuery = (body: unknown): z.output<typeof question> =>
  checkOptions(question, body);

/** Longest text of a message. */
const textMax = 160;
/** Longest list that is shown; of longer ones, only the length. */
const itemsMax = 4;

/** The last messages of a mailbox, newest first, with `secrets` redacted. */
export function receivedBy(
  { received }: Mailbox,
  nowMs: number,
  secrets: readonly (string | undefined)[],
): ReceivedMessage[] {
  const redacted = redaction(secrets);
  return received.last.all().map(({ type, from, atMs, bytes, body }): ReceivedMessage => {
    const about = { type, from, agoMs: Math.max(0, nowMs - atMs), bytes };
    if (body === undefined) return about;
    const text = redacted(JSON.stringify(body, shortened));
    return { ...about, text: text.length > textMax ? `${text.slice(0, textMax)} …` : text };
  });
}

/** Replaces long lists and byte arrays by their sizes. */
function shortened(_name: string, value: unknown): unknown {
  if (ArrayBuffer.isView(value)) return `(${value.byteLength} bytes)`;
  if (typeof value === "bigint") return String(value);
  if (Array.isArray(value) && value.length > itemsMax) return `(${value.length} items)`;
  return value;
}
