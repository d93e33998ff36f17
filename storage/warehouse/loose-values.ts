// Values of JSON as values of columns: one value, a list of values, weights by id.

import type { Loose } from "./inferred-type.ts";

/** A value of JSON, its text as UTF-8 bytes, one character each; undefined: it is of no column. */
export function looseOf(value: unknown): Loose | undefined {
  if (isScalar(value)) return { form: "value", value: bytesOf(value) };
  if (!Array.isArray(value)) return mapOf(Object.entries(value as object));
  if (value.length > 0 && value.every((one) => Array.isArray(one))) return mapOf(value);
  return value.every(isScalar) ? { form: "list", items: value.map(bytesOf) } : undefined;
}

function mapOf(entries: readonly unknown[]): Loose | undefined {
  const pairs: (readonly [string | number, number])[] = [];
  for (const entry of entries) {
    const [id, weight, ...more] = entry as readonly unknown[];
    const isPair = isScalar(id) && typeof id !== "boolean" && more.length === 0;
    if (!isPair || typeof weight !== "number") return undefined;
    pairs.push([bytesOf(id), weight]);
  }
  return { form: "map", pairs };
}

function isScalar(value: unknown): value is string | number | boolean {
  return ["string", "number", "boolean"].includes(typeof value);
}

/** Text as its UTF-8 bytes, one character each, as a line of CSV has it. */
function bytesOf<Value extends string | number | boolean>(value: Value): Value {
  if (typeof value !== "string") return value;
  return Buffer.from(value, "utf8").toString("latin1") as Value;
}
