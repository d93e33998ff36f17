// Inspects the schemas of options: finds the names of options at a path, for messages about
// misspelled names, and the options that name files. `pathOption` marks the latter in the schema,
// so that the check of a tenant's paths (actors/jobs/allowed-paths.ts) also covers options that are
// added later. This file walks zod's definitions without importing zod, as threads load it, too.

import type { z } from "zod";

/** The fields of a schema's definition, by kind, as in zod's documentation of `_zod.def`. */
interface Definition {
  readonly type: string;
  /** Of an object: the schemas of its options. */
  readonly shape?: Readonly<Record<string, z.ZodType>>;
  /** Of an array: the schema of an entry. */
  readonly element?: z.ZodType;
  /** Of optional, default, prefault and other wrappers: the inner schema. */
  readonly innerType?: z.ZodType;
  /** Of a pipe, such as a transform: the schema of the user's value. */
  readonly in?: z.ZodType;
  /** Of a union: its branches. */
  readonly options?: readonly z.ZodType[];
  /** Of a literal: the constants. */
  readonly values?: readonly unknown[];
  /** Of a record: the schema of a value. */
  readonly valueType?: z.ZodType;
  /** Of a tuple: the schemas of its entries. */
  readonly items?: readonly z.ZodType[];
  /** Checks beyond the type: bounds, formats, refinements. */
  readonly checks?: readonly { readonly _zod: { readonly def: { readonly check: string } } }[];
}

/**
 * The option names of the object at `path` in a value of `schema`. Only those branches of a union
 * are included whose constants, such as `kind: "csv"`, match the object.
 */
export function optionNamesAt(
  schema: z.ZodType,
  path: readonly PropertyKey[],
  root: unknown,
): string[] {
  return [...new Set(shapesAt(schema, path, root).flatMap((shape) => Object.keys(shape)))];
}

type Shape = NonNullable<Definition["shape"]>;

function shapesAt(schema: z.ZodType, path: readonly PropertyKey[], value: unknown): Shape[] {
  const { shape, element, innerType, in: input, options } = definitionOf(schema);
  const within = innerType ?? input;
  if (within !== undefined) return shapesAt(within, path, value);
  if (options !== undefined) return options.flatMap((one) => shapesAt(one, path, value));
  const [first, ...rest] = path;
  if (shape !== undefined && !agrees(shape, value)) return [];
  if (first === undefined) return shape === undefined ? [] : [shape];
  const next = typeof first === "number" ? element : shape?.[String(first)];
  const nextValue = (value as Record<PropertyKey, unknown> | undefined)?.[first];
  return next === undefined ? [] : shapesAt(next, rest, nextValue);
}

/** Whether the constants of a branch match those of the value. */
function agrees(shape: Shape, value: unknown): boolean {
  if (typeof value !== "object" || value === null) return true;
  return Object.entries(shape).every(([name, schema]) => {
    const { type, values } = definitionOf(schema);
    const own = (value as Record<string, unknown>)[name];
    return type !== "literal" || own === undefined || values?.includes(own) === true;
  });
}

function definitionOf(schema: z.ZodType): Definition {
  return schema._zod.def as Definition;
}

/** The contents at a path: data that a run reads, files that it keeps, or code that it runs. */
export type PathKind = "data" | "kept" | "module";

const kinds = new WeakMap<z.ZodType, PathKind>();

/** Marks the schema of an option that names a file or a directory. */
export function pathOption<Schema extends z.ZodType>(kind: PathKind, schema: Schema): Schema {
  kinds.set(schema, kind);
  return schema;
}

/** The kind of an option's path; undefined: the option names no file. */
export function pathKindOf(schema: z.ZodType): PathKind | undefined {
  const kind = kinds.get(schema);
  // Adding a description copies a schema; the marked schema is then the parent of the copy.
  const parent = schema._zod.parent as z.ZodType | undefined;
  return kind ?? (parent === undefined ? undefined : pathKindOf(parent));
}

/** Returns the replacement for a path. `option`: the path's option, such as `data.paths[0]`. */
export type ChangePath = (path: string, kind: PathKind, option: string) => string;

/** A copy of a value of `schema`, in which each path is replaced. */
export function withPaths<Value>(schema: z.ZodType, value: Value, change: ChangePath): Value {
  return changed(schema, value, "", change) as Value;
}

const withPath = new WeakMap<z.ZodType, boolean>();

/** Whether a value of the schema may have a path: most of a job, such as its tables, has none. */
function hasPath(schema: z.ZodType): boolean {
  const known = withPath.get(schema) ?? findsPath(schema, new Set());
  withPath.set(schema, known);
  return known;
}

function findsPath(schema: z.ZodType, seen: Set<z.ZodType>): boolean {
  if (pathKindOf(schema) !== undefined) return true;
  if (seen.has(schema)) return false;
  seen.add(schema);
  const { shape, element, innerType, in: input, options, valueType } = definitionOf(schema);
  const inner = [innerType, input, element, valueType, ...(options ?? [])];
  return [...inner, ...Object.values(shape ?? {})].some((one) => {
    return one !== undefined && findsPath(one, seen);
  });
}

function changed(schema: z.ZodType, value: unknown, option: string, change: ChangePath): unknown {
  if (!hasPath(schema)) return value;
  const kind = pathKindOf(schema);
  if (kind !== undefined) return typeof value === "string" ? change(value, kind, option) : value;
  const { shape, element, innerType, in: input, options, valueType } = definitionOf(schema);
  const within = innerType ?? input;
  if (within !== undefined) return changed(within, value, option, change);
  if (options !== undefined) {
    const branches = options.filter((one) => takes(one, value));
    return branches.reduce((own, one) => changed(one, own, option, change), value);
  }
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) {
    if (element === undefined) return value;
    return value.map((one, i) => changed(element, one, `${option}[${i}]`, change));
  }
  if (valueType === undefined && (shape === undefined || !agrees(shape, value))) return value;
  const entries = Object.entries(value).map(([name, own]) => {
    const of = valueType ?? shape?.[name];
    const at = option === "" ? name : `${option}.${name}`;
    return [name, of === undefined ? own : changed(of, own, at, change)] as const;
  });
  return Object.fromEntries(entries);
}

/** Whether a value may match a branch of a union. */
function takes(schema: z.ZodType, value: unknown): boolean {
  const { type, values } = definitionOf(schema);
  return type !== "literal" || values?.includes(value) === true;
}

/** All text options without a string format, by option name, with the kind of path, if any. */
export function freeTexts(schema: z.ZodType): Map<string, PathKind | undefined> {
  const found = new Map<string, PathKind | undefined>();
  const seen = new Set<z.ZodType>();
  const look = (one: z.ZodType, option: string): void => {
    const definition = definitionOf(one);
    const { type, shape, element, innerType, in: input, options, valueType, items } = definition;
    if (type === "string") {
      const isFree = definition.checks?.every(({ _zod }) => _zod.def.check !== "string_format");
      if (isFree !== false) found.set(option, pathKindOf(one));
      return;
    }
    if (seen.has(one)) return;
    seen.add(one);
    for (const inner of [innerType, input, ...(options ?? []), ...(items ?? [])]) {
      if (inner !== undefined) look(inner, option);
    }
    if (element !== undefined) look(element, `${option}[]`);
    if (valueType !== undefined) look(valueType, `${option}{}`);
    for (const [name, own] of Object.entries(shape ?? {})) {
      look(own, option === "" ? name : `${option}.${name}`);
    }
  };
  look(schema, "");
  return found;
}
