// The key column: the column that splits lines into training, validation and test, or an evaluation
// into slices; and its values.

import type { SplitSpec } from "./split-options.ts";

/**
 * A column that is read alongside the samples. The cache stores the keys of a `SplitColumn` only.
 */
export type KeyColumn = SplitColumn | SliceColumn;

/** The column that splits the lines. */
export type SplitColumn =
  | { readonly kind: "time"; readonly column: string }
  | { readonly kind: "hash"; readonly column: string; readonly salt: number };

/** The column whose value is the slice of each evaluated sample. Empty text is a slice, too. */
export interface SliceColumn {
  readonly kind: "slice";
  readonly column: string;
  /** If set, each key is 1 or 0: whether this split accepts the line's value of `column`. */
  readonly keptBy?: SplitColumn | undefined;
}

/** The column whose keys a cache must store for this split, if any. */
export function keyColumnOf(split: SplitSpec | undefined): SplitColumn | undefined {
  if (split === undefined || split.kind === "order") return undefined;
  const { kind, column } = split;
  return kind === "time" ? { kind, column } : { kind, column, salt: split.salt };
}

/** The option that names the column. */
export function optionOfKey({ kind }: KeyColumn): string {
  return kind === "slice" ? "by" : "evaluation.split.column";
}

/** Type of a column's keys. Dates are milliseconds since 1970, UTC. */
export type KeyForm = "number" | "date" | "hash" | "text";

/** The keys of the good lines, in order. */
export interface SplitKeys {
  readonly form: KeyForm;
  /** (samples); for texts, the index in `texts`, or `sliceTextsMax` for a text beyond the limit. */
  readonly values: Float64Array;
  /** The texts of a slice column, one byte per character, in order of first occurrence. */
  readonly texts?: readonly string[] | undefined;
}

/** Most named texts of a slice column; later texts are not named. */
export const sliceTextsMax = 0x2_0000;
