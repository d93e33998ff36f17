// Infers the type of a column of text or JSON from all of its values: the narrowest type that holds
// each of them without a change that a reader could notice.
//
//   integers of 64 bits              INT64
//   numbers                          DOUBLE; STRING if the text of one would not be reproduced,
//                                    e.g. 1.10, 713752e1, integers beyond 2^53 among fractions
//   true and false                   BOOLEAN
//   all else, mixtures               STRING
//   lists of integers, other lists   list<INT64>, list<STRING>
//   weights by id, pairs             map<INT64, DOUBLE>, map<STRING, DOUBLE>

import type { SchemaElement } from "hyparquet";

/**
 * The kind of a value. `long`: an integer that a float64 cannot hold. `decimal`: text of a number
 * that a float64 would print, and so hash, differently.
 */
type Kind = "integer" | "long" | "fraction" | "decimal" | "boolean" | "text";
type Form = "value" | "list" | "map";
type LeafType = "INT64" | "DOUBLE" | "BOOLEAN" | "BYTE_ARRAY";

/** A value of a column whose type is not decided yet. */
export type Loose =
  | { readonly form: "value"; readonly value: string | number | boolean }
  | { readonly form: "list"; readonly items: readonly (string | number | boolean)[] }
  | { readonly form: "map"; readonly pairs: readonly (readonly [string | number, number])[] };

/** The types of columns of text and JSON, by their names in `osiris warehouse inspect`. */
export const columnTypes = {
  INT64: { form: "value", leaf: "INT64" },
  DOUBLE: { form: "value", leaf: "DOUBLE" },
  BOOLEAN: { form: "value", leaf: "BOOLEAN" },
  STRING: { form: "value", leaf: "BYTE_ARRAY" },
  "list<INT64>": { form: "list", leaf: "INT64" },
  "list<STRING>": { form: "list", leaf: "BYTE_ARRAY" },
  "map<INT64, DOUBLE>": { form: "map", leaf: "INT64" },
  "map<STRING, DOUBLE>": { form: "map", leaf: "BYTE_ARRAY" },
} as const satisfies Record<string, { readonly form: Form; readonly leaf: LeafType }>;
export type ColumnType = keyof typeof columnTypes;

/** Widens a type with each value of a column. */
export class InferredType {
  readonly #kinds = new Set<Kind>();
  readonly #forms = new Set<Form>();
  #sealed: ColumnType | undefined;

  add(loose: Loose): void {
    this.#forms.add(loose.form);
    if (loose.form === "value") this.#kinds.add(kindOf(loose.value));
    else if (loose.form === "list") for (const item of loose.items) this.#kinds.add(kindOf(item));
    else for (const [id] of loose.pairs) this.#kinds.add(kindOf(id));
  }

  /** Whether the column mixes values, lists and maps, for which there is no type. */
  get isMixed(): boolean {
    return this.#forms.size > 1;
  }

  get #form(): Form {
    const [form = "value"] = this.#forms;
    return form;
  }

  get #leaf(): LeafType {
    const kinds = this.#kinds;
    const only = (...some: readonly Kind[]) => [...kinds].every((kind) => some.includes(kind));
    if (kinds.size === 0) return "BYTE_ARRAY";
    if (only("integer", "long")) return "INT64";
    if (this.#form !== "value") return "BYTE_ARRAY";
    if (only("integer", "fraction")) return "DOUBLE";
    return only("boolean") ? "BOOLEAN" : "BYTE_ARRAY";
  }

  /** The type of the values so far. */
  get type(): ColumnType {
    const leaf = this.#leaf === "BYTE_ARRAY" ? "STRING" : this.#leaf;
    if (this.#form === "value") return leaf;
    const inner = leaf === "INT64" ? "INT64" : "STRING";
    return this.#form === "list" ? `list<${inner}>` : `map<${inner}, DOUBLE>`;
  }

  /** The schema nodes of a column of this type. */
  elements(name: string): SchemaElement[] {
    return elementsOf(name, this.type);
  }

  /** A value in this type's stored form. Call it only after all values are added. */
  stored(loose: Loose): unknown {
    this.#sealed ??= this.type;
    return storedOf(this.#sealed, loose);
  }
}

/** The schema nodes of a column of a type. */
export function elementsOf(name: string, type: ColumnType): SchemaElement[] {
  const { form, leaf: leafType } = columnTypes[type];
  const leaf = leafNamed(leafType);
  const group = { repetition_type: "OPTIONAL", num_children: 1 } as const;
  switch (form) {
    case "value":
      return [leaf(name, "OPTIONAL")];
    case "list":
      return [
        { name, ...group, converted_type: "LIST" },
        { name: "list", repetition_type: "REPEATED", num_children: 1 },
        leaf("element", "OPTIONAL"),
      ];
    case "map":
      return [
        { name, ...group, converted_type: "MAP" },
        { name: "key_value", repetition_type: "REPEATED", num_children: 2 },
        leaf("key", "REQUIRED"),
        { name: "value", type: "DOUBLE", repetition_type: "REQUIRED" },
      ];
    default:
      return form satisfies never;
  }
}

/** A value in a type's stored form. */
export function storedOf(type: ColumnType, loose: Loose): unknown {
  const { leaf } = columnTypes[type];
  if (loose.form === "value") return storedAs(leaf, loose.value);
  if (loose.form === "list") return loose.items.map((item) => storedAs(leaf, item));
  return loose.pairs.map(([id, value]) => ({ key: storedAs(leaf, id), value }));
}

/** Whether a column of a type can store a value without changing it. */
export function fits(type: ColumnType, loose: Loose): boolean {
  const { form, leaf } = columnTypes[type];
  if (loose.form !== form) return false;
  if (loose.form === "value") return isOf(leaf, loose.value);
  if (loose.form === "list") return loose.items.every((item) => isOf(leaf, item));
  return loose.pairs.every(([id]) => isOf(leaf, id));
}

function isOf(leaf: LeafType, value: string | number | boolean): boolean {
  if (leaf === "BYTE_ARRAY") return true;
  const kind = kindOf(value);
  if (leaf === "INT64") return kind === "integer" || kind === "long";
  const isNumber = kind === "integer" || kind === "fraction" || kind === "decimal";
  return leaf === "DOUBLE" ? isNumber : kind === "boolean";
}

function leafNamed(type: LeafType) {
  return (name: string, repetition: "OPTIONAL" | "REQUIRED"): SchemaElement => {
    const leaf = { name, type, repetition_type: repetition };
    return type === "BYTE_ARRAY" ? { ...leaf, converted_type: "UTF8" } : leaf;
  };
}

/** Integers whose text is reproduced: without leading zeros or a plus sign. */
const integer = /^(?:0|-?[1-9]\d{0,18})$/;
const fraction = /^-?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/;
const [least, most] = [-(2n ** 63n), 2n ** 63n - 1n];

function kindOf(value: string | number | boolean): Kind {
  if (typeof value === "boolean") return "boolean";
  if (typeof value === "number") return Number.isSafeInteger(value) ? "integer" : "fraction";
  if (integer.test(value)) {
    if (value.length < 16) return "integer";
    const exact = BigInt(value);
    if (exact < least || exact > most) return "text";
    return Number.isSafeInteger(Number(value)) ? "integer" : "long";
  }
  if (!fraction.test(value)) return "text";
  return String(Number(value)) === value ? "fraction" : "decimal";
}

function storedAs(leaf: LeafType, value: string | number | boolean): unknown {
  if (leaf === "INT64") return BigInt(value);
  if (leaf === "DOUBLE") return Number(value);
  if (leaf === "BOOLEAN") return value === true;
  return Buffer.from(String(value), "latin1");
}
