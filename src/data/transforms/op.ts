// What a transform is: the forms that it takes and makes, and a function over whole columns.

import type { Transform } from "./transform-options.ts";
import type { ColumnType, TransformColumn, TransformForm } from "./values.ts";
import type { Vocabulary } from "./vocabulary.ts";

export type OpName = Transform["op"];
/** The options of a transform with this op. */
export type TransformOf<Name extends OpName> = Extract<Transform, { readonly op: Name }>;

/** The rows of one call. */
export interface Rows {
  readonly rows: number;
  /** Place of the file among the files of the data: part of a row's identity. */
  readonly place: number;
  /** Place of the first row in its file: the other part. */
  readonly firstRow: number;
  /** Says that a row has no value, and why: it is a bad row. */
  refuse(row: number, why: string): void;
}

/**
 * Makes columns of columns. It owns no input, and its outputs are new memory or, where nothing
 * changes, that of an input. Row r of an output is a function of row r of the inputs.
 */
export type Run = (inputs: readonly TransformColumn[], rows: Rows) => readonly TransformColumn[];

/** One op. */
export interface Op<Name extends OpName = OpName> {
  /** The forms that each input may have; a column of the file is read in the first of them. */
  readonly takes: readonly (readonly TransformForm[])[];
  /** The form of its outputs, from those of its inputs. */
  makes(inputs: readonly ColumnType[]): ColumnType;
  /** The function of these options. `vocabulary`: of an op that names one. */
  compile(options: TransformOf<Name>, vocabulary: Vocabulary | undefined): Run;
}

/** The first input's form: what changes values and not their number. */
export function sameForm([first]: readonly ColumnType[]): ColumnType {
  return first ?? { form: "numbers", isWeighted: false };
}
