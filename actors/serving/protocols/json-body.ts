// Bodies of JSON: bounded in their nesting, as an object.

import { isAscii } from "node:buffer";
import { RequestUnusableError } from "../../../src/errors/errors.ts";

/** Deepest nesting of a body: ours have five levels. */
const depthMax = 16;

const quote = 0x22;
const backslash = 0x5c;

/** The object in a body. @throws RequestUnusableError */
export function jsonOf(body: Uint8Array): Readonly<Record<string, unknown>> {
  if (isDeeper(body)) {
    throw new RequestUnusableError(`Expected JSON of at most ${depthMax} levels`);
  }
  let value: unknown;
  try {
    value = JSON.parse(textOf(body));
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message.slice(0, 200) : "";
    throw new RequestUnusableError(`Expected the body to be JSON: ${reason}`, 400, { cause });
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    return value as Record<string, unknown>;
  }
  const got = Array.isArray(value) ? "a list" : String(value).slice(0, 100);
  throw new RequestUnusableError(`Expected the body to be an object of JSON, got ${got}`);
}

const decoder = new TextDecoder("utf-8", { fatal: true });

/** The text of a body. Throws where it is no UTF-8. */
function textOf(body: Uint8Array): string {
  if (!isAscii(body)) return decoder.decode(body);
  return Buffer.from(body.buffer, body.byteOffset, body.length).toString("latin1");
}

/** Whether brackets nest deeper than they may, outside of strings. */
function isDeeper(body: Uint8Array): boolean {
  let depth = 0;
  let isText = false;
  for (let at = 0; at < body.length; at++) {
    const byte = body[at];
    if (isText) {
      if (byte === backslash) at++;
      else if (byte === quote) isText = false;
    } else if (byte === quote) isText = true;
    else if (byte === 0x5b || byte === 0x7b) {
      if (++depth > depthMax) return true;
    } else if (byte === 0x5d || byte === 0x7d) depth--;
  }
  return false;
}
