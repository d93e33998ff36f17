// The names of options that a schema has at a place, for messages about misspelled ones. It walks
// the definitions of the schema, as threads that check options load no library of schemas.

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
export function agrees(shape: Shape, value: unknown): boolean {
  if (typeof value !== "object" || value === null) return true;
  return Object.entries(shape).every(([name, schema]) => {
    const { type, values } = definitionOf(schema);
    const own = (value as Record<string, unknown>)[name];
    return type !== "literal" || own === undefined || values?.includes(own) === true;
  });
}

/** What a schema is made of. */
export function definitionOf(schema: z.ZodType): Definition {
  return schema._zod.def as Definition;
}
