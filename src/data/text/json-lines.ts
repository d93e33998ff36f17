// JSON Lines: one object per line, whose keys are the columns. Values become the fields that a text
// file would have, so that all further processing is shared with text, and the same rows as CSV and
// as JSON give the same samples.
//
// Members of nested objects are named with a dot: `user.id`. A missing key and null both mean a
// missing value. Lists are joined by control characters that texts should not contain, and split
// again when bags are built.

import { membersOf, parseExactly, shownJson } from "../../ports/json/exact-json.ts";
import { type LineFault, show } from "./faults.ts";

/**
 * Separators between the ids of a list, and between an id and its weight: the ASCII record and unit
 * separators.
 */
export const [betweenIds, beforeWeight] = ["\u001e", "\u001f"] as const;

/** How a JSON line becomes fields. */
export interface JsonFields {
  /** The column of each field. */
  readonly names: readonly string[];
  /** Kind of list of each field; undefined for a single value. */
  readonly lists: readonly ("plain" | "weighted" | undefined)[];
  /** Outputs of transforms. No line may have such a key, because it would be ambiguous. */
  readonly made: readonly string[];
}

/** The fields of a line with one byte per character, or the line's fault. */
export function jsonFields(line: string, { names, lists, made }: JsonFields): string[] | LineFault {
  const value = objectIn(line);
  if (value === undefined) {
    return { kind: "expected a JSON object, each name in it once", got: show(line.slice(0, 100)) };
  }
  if (!names.some((name) => memberAt(value, name) !== undefined)) {
    const listed = names.slice(0, 8).map((name) => `\`${name}\``);
    const keys = Object.keys(value).slice(0, 8).join(", ");
    return { kind: `expected some of the keys ${listed.join(", ")}`, got: show(bytesOf(keys)) };
  }
  const shadowed = made.find((name) => Object.hasOwn(value, name));
  if (shadowed !== undefined) {
    const kind = `expected no key \`${shadowed}\`, which a transform makes: name the output otherwise`;
    return { kind, got: show(textOfAny(value[shadowed])) };
  }
  const fields: string[] = [];
  for (const [i, name] of names.entries()) {
    const own = memberAt(value, name) ?? null;
    const list = lists[i];
    const field = list === undefined ? textOf(own) : listOf(own, list);
    if (field === undefined) return { kind: wanted(name, list), got: show(textOfAny(own)) };
    fields.push(field);
  }
  return fields;
}

/**
 * The value of a key. A name with dots also refers to members of nested objects, as for structs of
 * columnar files: `user.id`. A key that contains the dots itself takes precedence. Undefined if
 * there is none.
 */
export function memberAt(object: Record<string, unknown>, name: string): unknown {
  if (Object.hasOwn(object, name)) return object[name];
  for (let dot = name.indexOf("."); dot >= 0; dot = name.indexOf(".", dot + 1)) {
    const key = name.slice(0, dot);
    const outer = Object.hasOwn(object, key) ? object[key] : undefined;
    const inner: unknown = outer instanceof Map ? Object.fromEntries(outer) : outer;
    const found = isObject(inner) ? memberAt(inner, name.slice(dot + 1)) : undefined;
    if (found !== undefined) return found;
  }
  return undefined;
}

/**
 * Adds the separators to a reader of a JSON field, so that a list is split as `jsonFields` joined
 * it.
 */
export function splitAsJson<Read extends { readonly list?: "plain" | "weighted" | undefined }>(
  read: Read,
): Read | (Read & { readonly separator: string; readonly weightSeparator: string | undefined }) {
  if (read.list === undefined) return read;
  const weightSeparator = read.list === "weighted" ? beforeWeight : undefined;
  return { ...read, separator: betweenIds, weightSeparator };
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

/**
 * Parses the JSON object of a line with `parseExactly`; nested objects may be maps. Undefined if
 * the line is not a JSON object, repeats a name, or is not UTF-8.
 */
export function objectIn(line: string): Record<string, unknown> | undefined {
  try {
    const isAscii = !/[^\0-\x7f]/.test(line);
    const text = isAscii ? line : utf8.decode(Buffer.from(line, "latin1"));
    const value: unknown = parseExactly(text, { mayBeMaps: true });
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Adds members to the JSON object of a line, one for each name. `values` are JSON texts; an empty
 * or missing value becomes null. A line that is no object stays unchanged.
 */
export function withMembers(
  line: string,
  names: readonly string[],
  values: readonly string[],
): string {
  const end = line.trimEnd();
  if (!end.endsWith("}")) return line;
  const rest = end.slice(0, -1).trimEnd();
  const members = names.map((name, i) => {
    const value = values[i] ?? "";
    return `${bytesOf(JSON.stringify(name))}:${value === "" ? "null" : value}`;
  });
  return `${rest}${rest.endsWith("{") ? "" : ","}${members.join(",")}}`;
}

/** Whether the object of a line has a key. */
export function hasKey(line: string, name: string): boolean {
  return Object.hasOwn(objectIn(line) ?? {}, name);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The field of a single value; undefined for any other value. */
function textOf(value: unknown): string | undefined {
  if (value === null) return "";
  if (typeof value === "string") return bytesOf(value);
  return typeof value === "object" || value === undefined ? undefined : String(value);
}

/**
 * The field of a list: its ids, each with its weight if the list is weighted; undefined if the
 * value is no such list.
 */
function listOf(value: unknown, list: "plain" | "weighted" | undefined): string | undefined {
  if (value === null) return "";
  if (list === "plain") {
    if (!Array.isArray(value)) return undefined;
    return joined(value.map((entry) => textOf(entry)));
  }
  // An object of weights by id, or a list of pairs.
  const pairs: unknown[] = isObject(value)
    ? [...membersOf(value)]
    : Array.isArray(value)
      ? value
      : [0];
  return joined(
    pairs.map((pair) => {
      if (!Array.isArray(pair) || pair.length !== 2 || !isNumber(pair[1])) return undefined;
      const id = textOf(pair[0]);
      return id === undefined || id === "" ? undefined : `${id}${beforeWeight}${pair[1]}`;
    }),
  );
}

function isNumber(value: unknown): value is number | bigint {
  return typeof value === "number" || typeof value === "bigint";
}

function joined(entries: readonly (string | undefined)[]): string | undefined {
  const texts: string[] = [];
  for (const entry of entries) {
    if (entry === undefined || entry.includes(betweenIds)) return undefined;
    texts.push(entry);
  }
  return texts.join(betweenIds);
}

function wanted(name: string, list: "plain" | "weighted" | undefined): string {
  if (list === undefined) return `expected \`${name}\` to be one value`;
  if (list === "plain") return `expected \`${name}\` to be a list of ids`;
  return `expected \`${name}\` to be an object of weights by id, or a list of pairs`;
}

/** Formats any value for a message, one character per byte. */
function textOfAny(value: unknown): string {
  return bytesOf(shownJson(value).slice(0, 100));
}

/** The UTF-8 bytes of a text, one character per byte. */
function bytesOf(text: string): string {
  return /[^\0-\x7f]/.test(text) ? Buffer.from(text, "utf8").toString("latin1") : text;
}
