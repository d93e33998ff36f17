// The column that splits the lines into training, validation and test, and its values.

import type { SplitSpec } from "./split-options.ts";

/** The column that splits the lines, as the cache keeps it beside the samples. */
export type KeyColumn =
  | { readonly kind: "time"; readonly column: string }
  | { readonly kind: "hash"; readonly column: string; readonly salt: number };

/** The column that a cache has to keep for this split; undefined: none. */
export function keyColumnOf(split: SplitSpec | undefined): KeyColumn | undefined {
  if (split === undefined || split.kind === "order") return undefined;
  const { kind, column } = split;
  return kind === "time" ? { kind, column } : { kind, column, salt: split.salt };
}

/** What the keys of a column are. Dates are milliseconds since 1970, UTC. */
export type KeyForm = "number" | "date" | "hash";

/** The keys of the good lines, in their order. */
export interface SplitKeys {
  readonly form: KeyForm;
  /** (samples) */
  readonly values: Float64Array;
}
