// Bodies of JSON: bounded in their nesting, as an object, their integers with all digits.

import { isAscii } from "node:buffer";
import { RequestUnusableError } from "../../../src/errors/errors.ts";
import { parseExactly } from "../../../src/ports/json/exact-json.ts";

/** Deepest nesting of a body: ours have five levels. */
const depthMax = 16;

/** The object in a body, an integer beyond 2^53 as a bigint. @throws RequestUnusableError */
export function jsonOf(body: Uint8Array): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = parseExactly(textOf(body), { depthMax });
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
