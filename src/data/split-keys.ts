// The column that splits the lines into training, validation and test, or cuts an evaluation into
// slices, and its values.

import type { SplitSpec } from "./split-options.ts";

/** A column that is read beside the samples. The cache keeps the first two kinds. */
export type KeyColumn = SplitColumn | SliceColumn;

/** The column that splits the lines. */
export type SplitColumn =
  | { readonly kind: "time"; readonly column: string }
  | { readonly kind: "hash"; readonly column: string; readonly salt: number };

/** The column that names the slice of each evaluated sample; an empty text is a slice, too. */
export interface SliceColumn {
  readonly kind: "slice";
  readonly column: string;
  /** The split of the data that `column` decides: each key is whether it keeps the line, 0 or 1. */
  readonly keptBy?: SplitColumn | undefined;
}

/** The column that a cache has to keep for this split; undefined: none. */
export function keyColumnOf(split: SplitSpec | undefined): SplitColumn | undefined {
  if (split === undefined || split.kind === "order") return undefined;
  const { kind, column } = split;
  return kind === "time" ? { kind, column } : { kind, column, salt: split.salt };
}

/** The option that names the column. */
export function optionOfKey({ kind }: KeyColumn): string {
  return kind === "slice" ? "by" : "evaluation.split.column";
}

/** What the keys of a column are. Dates are milliseconds since 1970, UTC. */
export type KeyForm = "number" | "date" | "hash" | "text";

/** The keys of the good lines, in their order. */
export interface SplitKeys {
  readonly form: KeyForm;
  /** (samples); of texts: the place in `texts`, or that of none: there were too many. */
  readonly values: Float64Array;
  /** The texts of a column of slices, one byte per character, in the order of the lines. */
  readonly texts?: readonly string[] | undefined;
}

/** Most texts of a column of slices: those that come later have no name. */
export const sliceTextsMax = 0x2_0000;
