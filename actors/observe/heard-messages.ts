// The last messages of one actor, as inspection tells them: type, sender, age, size, and short
// contents without secrets and without anything of tensors.

import { z } from "zod";
import { checkOptions } from "../../src/ports/check-options.ts";
import type { Mailbox } from "../runtime/mailbox.ts";
import { redaction } from "./process-log.ts";

/** A message that an actor heard. */
export interface HeardMessage {
  readonly type: string;
  /** `coordinator:0` */
  readonly from: string;
  /** How long ago it came. */
  readonly agoMs: number;
  /** Of its frame. */
  readonly bytes: number;
  /** Short contents, as JSON with numbers of a list counted; undefined: its frame was larger. */
  readonly text?: string;
}

const question = z.strictObject({
  /** The process: index of its host; null: the leader's, where it has no devices. */
  host: z.int().min(0).nullable().default(null),
  /** `device:1` */
  actor: z.string().min(1).max(64),
  run: z.string().min(1).max(128).optional(),
});

/** Whose messages are asked for. @throws InvalidOptionError */
export const askedOf = (body: unknown): z.output<typeof question> => checkOptions(question, body);

/** Longest text of a message. */
const textMax = 160;
/** Longer lists are counted. */
const itemsMax = 4;

/** The newest first. `secrets` stand in none of them. */
export function heardBy(
  { heard }: Mailbox,
  nowMs: number,
  secrets: readonly (string | undefined)[],
): HeardMessage[] {
  const redacted = redaction(secrets);
  return heard.last.all().map(({ type, from, atMs, bytes, body }): HeardMessage => {
    const about = { type, from, agoMs: Math.max(0, nowMs - atMs), bytes };
    if (body === undefined) return about;
    const text = redacted(JSON.stringify(body, shortened));
    return { ...about, text: text.length > textMax ? `${text.slice(0, textMax)} …` : text };
  });
}

/** Lists and bytes become how many there are. */
function shortened(_name: string, value: unknown): unknown {
  if (ArrayBuffer.isView(value)) return `(${value.byteLength} bytes)`;
  if (typeof value === "bigint") return String(value);
  if (Array.isArray(value) && value.length > itemsMax) return `(${value.length} items)`;
  return value;
}
