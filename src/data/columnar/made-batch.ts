// A batch of rows together with the columns that transforms make of it. A column whose form a
// transform does not read is converted by way of its text, as if it came from a text file.

import type { SourceRows } from "../source-rows.ts";
import type { LineFault } from "../text/faults.ts";
import { splitAsJson } from "../text/json-lines.ts";
import { SourceColumns } from "../text/source-columns.ts";
import type { CompiledTransforms, MadeColumns } from "../transforms/compile.ts";
import type { Source } from "../transforms/plan.ts";
import type { TransformColumn } from "../transforms/values.ts";
import { type Column, type FieldColumn, textsAt } from "./column.ts";
import type { FieldColumns } from "./named-columns.ts";

/** The outputs of the transforms for a batch. */
export interface MadeBatch extends Pick<MadeColumns, "columns" | "kept"> {
  /** Faults of rows whose features could not be made, by row. */
  readonly faults: ReadonlyMap<number, LineFault>;
}

/** Runs the transforms on a batch. `place` is the index of the batch's file. */
export function madeBatch(
  transforms: CompiledTransforms,
  { sources: fields = [] }: FieldColumns,
  header: readonly string[],
  { rows, firstRow, columns }: SourceRows,
  place: number,
): MadeBatch {
  const faults = new Map<number, LineFault>();
  const sources = transforms.sources.map((source, i) => {
    const column = columns.get(header[fields[i] ?? -1] ?? "");
    if (column === undefined) throw new TypeError(`a batch lacks the column ${source.column}`);
    return sourceOf(source, column, rows, faults);
  });
  const made = transforms.run(sources, { rows, place, firstRow });
  for (const [row, kind] of made.faults) if (!faults.has(row)) faults.set(row, { kind });
  return { ...made, faults };
}

/** Converts a column to the form in which a transform reads it. */
function sourceOf(
  given: Source,
  column: Column | FieldColumn,
  rows: number,
  faults: Map<number, LineFault>,
): TransformColumn {
  const isField = column.form === "fields";
  const source = isField && column.isJson ? splitAsJson(given) : given;
  const isText = (isField || column.form === "texts") && source.separator !== undefined;
  const isUnsigned = column.form === "ids" && column.isUnsigned === true;
  if (!isField && column.form === source.form && !isText && !isUnsigned) return column;
  const columns = new SourceColumns([source], rows);
  for (let row = 0; row < rows; row++) {
    const texts = textsAt(column, row);
    const fault = columns.add(() => (isText ? (texts[0] ?? "") : texts));
    if (fault !== undefined && !faults.has(row)) faults.set(row, fault);
  }
  const [made] = columns.columns();
  return made as TransformColumn;
}
