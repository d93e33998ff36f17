// Reads two things from the schemas of options: the names that options have at a place, for
// messages about misspelled ones, and the options that name files. `pathOption` marks the latter in
// the schema, so that the check of a tenant's paths (actors/jobs/allowed-paths.ts) covers options
// that are added later. This file walks zod's definitions and does not import zod: threads load it
// too.

import type { z } from "zod";

/** What each kind of schema is made of, as zod's documentation of `_zod.def` lists it. */
interface Definition {
  readonly type: string;
  /** object: its options. */
  readonly shape?: Readonly<Record<string, z.ZodType>>;
  /** array: an entry. */
  readonly element?: z.ZodType;
  /** optional, default, prefault and the like: the schema within. */
  readonly innerType?: z.ZodType;
  /** pipe, of a transform for example: the schema of what a user writes. */
  readonly in?: z.ZodType;
  /** union: its branches. */
  readonly options?: readonly z.ZodType[];
  /** literal: the constants. */
  readonly values?: readonly unknown[];
  /** record: a value. */
  readonly valueType?: z.ZodType;
  /** tuple: its entries. */
  readonly items?: readonly z.ZodType[];
  /** Beyond the type: bounds, forms, refinements. */
  readonly checks?: readonly { readonly _zod: { readonly def: { readonly check: string } } }[];
}

/**
 * The options of the object at `path` in a value of `schema`. Of a union's branches only those
 * count whose constants, as `kind: "csv"`, are in the object.
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

/** Whether the constants of a branch are those of the value. */
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

/** What a path leads to: data that are read, what a run keeps, or code that it runs. */
export type PathKind = "data" | "kept" | "module";

const kinds = new WeakMap<z.ZodType, PathKind>();

/** Marks the schema of an option that names a file or a directory. */
export function pathOption<Schema extends z.ZodType>(kind: PathKind, schema: Schema): Schema {
  kinds.set(schema, kind);
  return schema;
}

/** The kind of an option's path; undefined: it names no file. */
export function pathKindOf(schema: z.ZodType): PathKind | undefined {
  const kind = kinds.get(schema);
  // A schema with a description is a copy, whose parent is the one that was marked.
  const parent = schema._zod.parent as z.ZodType | undefined;
  return kind ?? (parent === undefined ? undefined : pathKindOf(parent));
}

/** Gives the path that is to stand for `path`. `option`: its place, as `data.paths[0]`. */
export type ChangePath = (path: string, kind: PathKind, option: string) => string;

/** The value of `schema` with each path changed; the value itself stays as it is. */
export function withPaths<Value>(schema: z.ZodType, value: Value, change: ChangePath): Value {
  return changed(schema, value, "", change) as Value;
}

function changed(schema: z.ZodType, value: unknown, option: string, change: ChangePath): unknown {
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

/** Whether a branch of a union may be that of the value. */
function takes(schema: z.ZodType, value: unknown): boolean {
  const { type, values } = definitionOf(schema);
  return type !== "literal" || values?.includes(value) === true;
}

/** Every option of text without a form of its own: its place, and whether it is a path. */
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
