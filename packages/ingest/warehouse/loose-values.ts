// Converts JSON values to column values: a single value, a list of values, or weights by id.

import { membersOf } from "../../../internal.ts";
import type { Loose } from "./inferred-type.ts";

type Scalar = string | number | bigint | boolean;

/**
 * Converts a JSON value from `parseExactly`. Text becomes its UTF-8 bytes, one character per byte.
 * Undefined: a value that no column can hold.
 */
export function looseOf(value: unknown): Loose | undefined {
  if (isScalar(value)) return { form: "value", value: heldOf(value) };
  if (!Array.isArray(value)) return mapOf([...membersOf(value as object)]);
  if (value.length > 0 && value.every((one) => Array.isArray(one))) return mapOf(value);
  return value.every(isScalar) ? { form: "list", items: value.map(heldOf) } : undefined;
}

function mapOf(entries: readonly unknown[]): Loose | undefined {
  const pairs: (readonly [string | number, number])[] = [];
  for (const entry of entries) {
    const [id, weight, ...more] = entry as readonly unknown[];
    const isPair = isScalar(id) && typeof id !== "boolean" && more.length === 0;
    const isWeight = typeof weight === "number" || typeof weight === "bigint";
    if (!isPair || !isWeight) return undefined;
    pairs.push([heldOf(id), Number(weight)]);
  }
  return { form: "map", pairs };
}

function isScalar(value: unknown): value is Scalar {
  return ["string", "number", "bigint", "boolean"].includes(typeof value);
}

/** Text as its UTF-8 bytes in latin1, as in lines of CSV; a bigint as its digits. */
function heldOf<Value extends Scalar>(value: Value): Exclude<Value, bigint> {
  const held = typeof value === "bigint" ? String(value) : value;
  const bytes = typeof held === "string" ? Buffer.from(held, "utf8").toString("latin1") : held;
  return bytes as Exclude<Value, bigint>;
}
