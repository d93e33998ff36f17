// The interface of an op: the forms that it takes and makes, and a function over whole columns.

import type { Transform } from "./transform-options.ts";
import type { ColumnType, TransformColumn, TransformForm } from "./values.ts";
import type { Vocabulary } from "./vocabulary.ts";

export type OpName = Transform["op"];
/** The options of a transform with this op. */
export type TransformOf<Name extends OpName> = Extract<Transform, { readonly op: Name }>;

/** The rows of one call. */
export interface Rows {
  readonly rows: number;
  /** Index of the file among the files of the data; with the row's index it identifies a row. */
  readonly place: number;
  /** Index of the first row in its file. */
  readonly firstRow: number;
  /** Marks a row as bad: it has no value, for the reason `why`. */
  refuse(row: number, why: string): void;
}

/**
 * Computes columns from columns. It must not modify its inputs; outputs are new memory, or an
 * input's memory where nothing changes. Row r of an output is a function of row r of the inputs.
 */
export type Run = (inputs: readonly TransformColumn[], rows: Rows) => readonly TransformColumn[];

/** An op: its types, and its compiler. */
export interface Op<Name extends OpName = OpName> {
  /**
   * The forms that each input may have. A column of the file is read in the first of them, unless
   * its options call for another.
   */
  readonly takes: readonly (readonly TransformForm[])[];
  /** The type of its outputs, from the types of its inputs. */
  makes(inputs: readonly ColumnType[]): ColumnType;
  /** Returns the function for these options. `vocabulary`: set for an op that names one. */
  compile(options: TransformOf<Name>, vocabulary: Vocabulary | undefined): Run;
}

/** The type of the first input, for ops that change values but not their number. */
export function sameForm([first]: readonly ColumnType[]): ColumnType {
  return first ?? { form: "numbers", isWeighted: false };
}
