// Names of column types for people: `INT64`, `list<INT64>`, `map<INT32, FLOAT>`.

import type { SchemaElement, SchemaTree } from "hyparquet";
import { leafKey } from "../../../internal.ts";

/** The name of a column's type. */
export function typeOf(node: SchemaTree): string {
  const { element, children } = node;
  if (children.length === 0) {
    const type = leafType(element);
    return element.repetition_type === "REPEATED" ? `list<${type}>` : type;
  }
  const [only] = children;
  const kind = element.logical_type?.type ?? element.converted_type;
  if (only?.element.repetition_type === "REPEATED" && children.length === 1) {
    if (kind === "MAP" || kind === "MAP_KEY_VALUE") return `map<${membersOf(only)}>`;
    const isWrapped = only.children.length === 1;
    return isWrapped ? `list<${membersOf(only)}>` : `list<${itemOf(only)}>`;
  }
  return structOf(node);
}

/** The item type of a list whose repeated node is the item itself (a two-level list). */
function itemOf(node: SchemaTree): string {
  return node.children.length > 0 ? structOf(node) : leafType(node.element);
}

function leafType({
  type,
  converted_type: converted,
  logical_type: logical,
}: SchemaElement): string {
  if (logical?.type === "INTEGER") return `${logical.isSigned ? "" : "U"}INT${logical.bitWidth}`;
  return logical?.type ?? converted?.replace("INT_", "INT") ?? type ?? "unknown";
}

function membersOf({ children }: SchemaTree): string {
  return children.map(typeOf).join(", ");
}

function structOf({ children }: SchemaTree): string {
  return `struct<${children.map((one) => `${one.element.name}: ${typeOf(one)}`).join(", ")}>`;
}

/** Names of a column's leaves in a row group: their paths, joined by dots. */
export function leavesOf({ path, children }: SchemaTree): string[] {
  return children.length === 0 ? [leafKey(path)] : children.flatMap(leavesOf);
}
