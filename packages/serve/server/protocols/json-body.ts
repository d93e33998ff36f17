// Parses JSON bodies: an object of bounded nesting, with integers at full precision.

import { isAscii } from "node:buffer";
import {
  namesMax,
  parseExactly,
  RequestTooLargeError,
  RequestUnusableError,
} from "../../../../internal.ts";

/** Deepest nesting of a body; valid requests have five levels. */
const depthMax = 16;

/** Most objects of a body besides its samples: tensors, their parameters, and enclosing objects. */
const objectsBeside = 50_000;

/**
 * Parses the object in a body, with integers beyond 2^53 as bigints. Counts objects and names
 * before parsing, because parsing millions of either would delay all other requests for seconds.
 * @throws RequestUnusableError, RequestTooLargeError
 */
export function jsonOf(body: Uint8Array, samplesMax: number): Readonly<Record<string, unknown>> {
  const checkSize = ({ objects, names }: { readonly objects: number; readonly names: number }) => {
    if (names > namesMax) throw new RequestTooLargeError("different names", namesMax);
    if (objects <= samplesMax + objectsBeside) return;
    throw new RequestTooLargeError("samples", samplesMax, objects);
  };
  let value: unknown;
  try {
    value = parseExactly(textOf(body), { depthMax, checkSize });
  } catch (cause) {
    if (cause instanceof RequestTooLargeError) throw cause;
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

/** The text of a body. Throws if it is not UTF-8. */
function textOf(body: Uint8Array): string {
  if (!isAscii(body)) return decoder.decode(body);
  return Buffer.from(body.buffer, body.byteOffset, body.length).toString("latin1");
}
