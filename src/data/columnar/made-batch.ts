// A batch of columns together with the columns that transforms make of it. A column whose form a
// transform does not read is converted by way of its text, as if it came from a text file.

import type { LineFault } from "../text/faults.ts";
import { SourceColumns } from "../text/source-columns.ts";
import type { CompiledTransforms } from "../transforms/compile.ts";
import type { Source } from "../transforms/plan.ts";
import type { TransformColumn } from "../transforms/values.ts";
import type { Column, RowBatch } from "./column.ts";
import type { FieldColumns } from "./named-columns.ts";
import { textsAt } from "./row-text.ts";

/** The columns of a batch, including the outputs of the transforms. */
export interface MadeBatch {
  readonly columns: { get(name: string): Column | undefined };
  /**
   * A transformed column with one row per run of equal rows, as for `BatchColumns.bagsOf`;
   * undefined for any other column.
   */
  runsOf(name: string): { readonly column: Column; readonly runs: Int32Array } | undefined;
  /** Faults of rows whose features could not be made, by row. */
  readonly faults: ReadonlyMap<number, LineFault>;
  /** (rows): 0 for rows that sampling drops; undefined if it drops none. */
  readonly kept: Uint8Array | undefined;
}

/** Runs the transforms on a batch. `place` is the index of the batch's file. */
export function madeBatch(
  transforms: CompiledTransforms,
  { sources: fields = [] }: FieldColumns,
  header: readonly string[],
  batch: RowBatch,
  place: number,
): MadeBatch {
  const faults = new Map<number, LineFault>();
  const sources = transforms.sources.map((source, i) => {
    const column = batch.columns.get(header[fields[i] ?? -1] ?? "");
    if (column === undefined) throw new TypeError(`a batch lacks the column ${source.column}`);
    return sourceOf(source, column, batch.rows, faults);
  });
  const { rows, firstRow } = batch;
  const made = transforms.run(sources, { rows, place, firstRow });
  for (const [row, kind] of made.faults) if (!faults.has(row)) faults.set(row, { kind });
  const isOutput = (name: string) => transforms.outputs.has(name);
  return {
    columns: {
      get(name) {
        const column = isOutput(name) ? made.columns.get(name) : undefined;
        return column === undefined || column.form === "lists" ? batch.columns.get(name) : column;
      },
    },
    runsOf(name) {
      const found = isOutput(name) ? made.columns.runsOf(name) : undefined;
      if (found === undefined || found.column.form === "lists") return undefined;
      return { column: found.column, runs: found.runs };
    },
    faults,
    kept: made.kept,
  };
}

/** Converts a column to the form in which a transform reads it. */
function sourceOf(
  source: Source,
  column: Column,
  rows: number,
  faults: Map<number, LineFault>,
): TransformColumn {
  const isText = column.form === "texts" && source.separator !== undefined;
  const isUnsigned = column.form === "ids" && column.isUnsigned === true;
  if (column.form === source.form && !isText && !isUnsigned) return column;
  const columns = new SourceColumns([source], rows);
  for (let row = 0; row < rows; row++) {
    const texts = textsAt(column, row);
    const fault = columns.add(() => (isText ? (texts[0] ?? "") : texts));
    if (fault !== undefined && !faults.has(row)) faults.set(row, fault);
  }
  const [made] = columns.columns();
  return made as TransformColumn;
}
