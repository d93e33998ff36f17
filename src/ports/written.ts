// Options as a user may write them in TypeScript.

/** `Options`, whose lists may be readonly, as those of a job written `as const` are. */
export type Written<Options> = Options extends readonly (infer Entry)[]
  ? readonly Written<Entry>[]
  : Options extends object
    ? { readonly [Key in keyof Options]: Written<Options[Key]> }
    : Options;
