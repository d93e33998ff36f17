// Types of options as a user writes them in TypeScript, before validation.

/** `Options` with readonly lists and fields, so that a job may be written `as const`. */
export type Written<Options> = Options extends readonly (infer Entry)[]
  ? readonly Written<Entry>[]
  : Options extends object
    ? { readonly [Key in keyof Options]: Written<Options[Key]> }
    : Options;

/** Options whose names and values are not validated yet. */
export type Fields = Readonly<Record<string, unknown>>;

/** Whether a value is an object, as a section of options must be. */
export function isSection(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
