// Options as a user may write them in TypeScript.

/** `Options`, whose lists may be readonly, as those of a job written `as const` are. */
export type Written<Options> = Options extends readonly (infer Entry)[]
  ? readonly Written<Entry>[]
  : Options extends object
    ? { readonly [Key in keyof Options]: Written<Options[Key]> }
    : Options;

/** Options whose names and values are not checked yet. */
export type Fields = Readonly<Record<string, unknown>>;

/** Whether a value may be a section of options. */
export function isSection(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
