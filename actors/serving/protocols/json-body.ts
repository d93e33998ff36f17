// Bodies of JSON: bounded in their nesting, as an object, their integers with all digits.

import { isAscii } from "node:buffer";
import { RequestTooLargeError, RequestUnusableError } from "../../../src/errors/errors.ts";
import { namesMax, parseExactly } from "../../../src/ports/json/exact-json.ts";

/** Deepest nesting of a body: ours have five levels. */
const depthMax = 16;

/** Objects of a body beside its samples: tensors, their parameters, and what is around them. */
const objectsBeside = 50_000;

/**
 * The object in a body, an integer beyond 2^53 as a bigint. The objects of a request and its names
 * are counted before it is parsed: parsing millions of either would keep all others waiting for
 * seconds.
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

/** The text of a body. Throws where it is no UTF-8. */
function textOf(body: Uint8Array): string {
  if (!isAscii(body)) return decoder.decode(body);
  return Buffer.from(body.buffer, body.byteOffset, body.length).toString("latin1");
}
