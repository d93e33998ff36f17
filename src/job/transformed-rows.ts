// Shows how a job reads the first rows of a file: the columns that it reads, the columns that
// transforms make of them, and the sample. For people who write transforms.

import { textsAt } from "../data/columnar/column.ts";
import type { FieldColumns } from "../data/columnar/named-columns.ts";
import { createRowEncoder, type RowEncoder } from "../data/columnar/row-encoder.ts";
import { openRows } from "../data/file-rows.ts";
import { Sample } from "../data/sample.ts";
import { targetsOf } from "../data/targets.ts";
import { denseOf } from "../data/text/columns.ts";
import { decodeText, type LineFault, sentenceOf } from "../data/text/faults.ts";
import { beforeWeight, betweenIds } from "../data/text/json-lines.ts";
import { type CompiledTransforms, transformsFor } from "../data/transforms/compile.ts";
import type { TransformColumn } from "../data/transforms/values.ts";
import { InvalidOptionError } from "../errors/errors.ts";
import { shapesOf } from "../model/features.ts";
import type { JobSpec } from "./job.ts";

/** A row of a file, and the sample made of it. Values are text for display; "": no value. */
export interface TransformedRow {
  /**
   * Number of the row as in messages: lines of text count from the header on, which is line 1; rows
   * of a table count from 1.
   */
  readonly row: number;
  /** The columns of the file that features and transforms read. */
  readonly read: Readonly<Record<string, string>>;
  /** The columns that transforms make. */
  readonly made: Readonly<Record<string, string>>;
  /** The dense features; left out: the row is bad. NaN awaits the mean of the training data. */
  readonly dense?: readonly number[];
  /** The ids of each categorical feature, by its name; ids of 64 bits are text. */
  readonly bags?: Readonly<Record<string, readonly (number | string)[]>>;
  /** Why the row is bad. */
  readonly fault?: string;
  /** Whether sampling keeps the row, if the file is the first of the data. */
  readonly isKept: boolean;
}

/**
 * Reads the first rows of a file with the data section of a job. Labels are ignored.
 * @throws InvalidOptionError where the file lacks a column, or the job's data are generated
 * @throws InputUnusableError where the file, or a vocabulary, cannot be read
 */
export async function transformedRows(
  job: JobSpec,
  path: string,
  rowsMax: number,
): Promise<TransformedRow[]> {
  const { data, model } = job;
  if (data.kind === "synthetic") {
    const message = "Expected `data.kind` to be one of files, as generated data is in none";
    throw new InvalidOptionError("data.kind", `${message}, got \`synthetic\``);
  }
  const shapes = shapesOf(model);
  const transforms = transformsFor(data);
  const sample = new Sample({
    dense: denseOf(data),
    features: shapes.length,
    targets: targetsOf(data),
  });
  const found: TransformedRow[] = [];
  const file = await openRows(path, data, shapes, { isPrediction: true });
  let encoder: RowEncoder | undefined;
  try {
    for await (const { batch, columns, header, isWanted, lineOf } of file?.batches ?? []) {
      encoder ??= createRowEncoder(columns, header, undefined, transforms);
      encoder.begin(batch);
      const names = readNames(columns, transforms);
      for (let row = 0; row < batch.rows && found.length < rowsMax; row++) {
        if (!isWanted(row)) continue;
        const shown = names.map(([name, field]) => {
          const column = batch.columns.get(header[field] ?? "");
          return [name, column === undefined ? "" : shownText(textsAt(column, row).join("|"))];
        });
        const made = encoder.made();
        found.push({
          row: lineOf(row),
          read: Object.fromEntries(shown),
          made: shownColumns(transforms, (name) => made?.columns.get(name), row),
          isKept: encoder.isKept(row),
          ...resultOf(job, sample, encoder.encodeFeatures(sample, row)),
        });
      }
      if (found.length === rowsMax) break;
    }
  } finally {
    await file?.close();
  }
  return found;
}

/** A field as text for display: `|` separates the ids of a JSON list, and `:` their weights. */
function shownText(field: string): string {
  return decodeText(field.replaceAll(betweenIds, "|").replaceAll(beforeWeight, ":"));
}

/** The columns of the file that features and transforms read, by name, each once. */
function readNames(
  { dense, categorical, sources = [] }: FieldColumns,
  transforms: CompiledTransforms | undefined,
): [string, number][] {
  const features = [...dense, ...categorical].filter(({ isMade }) => isMade !== true);
  const own = features.map(({ name, field }): [string, number] => [name, field]);
  const read = sources.map((field, i): [string, number] => {
    return [transforms?.sources[i]?.column ?? "", field];
  });
  return [...new Map([...read, ...own])];
}

function shownColumns(
  transforms: CompiledTransforms | undefined,
  columnOf: (name: string) => TransformColumn | undefined,
  row: number,
): Record<string, string> {
  const names = [...(transforms?.outputs.keys() ?? [])];
  return Object.fromEntries(
    names.flatMap((name) => {
      const column = columnOf(name);
      return column === undefined ? [] : [[name, shownValue(column, row)]];
    }),
  );
}

/** A value of a column as text: lists in brackets, weights of ids after a colon. */
function shownValue(column: TransformColumn, row: number): string {
  if (column.form === "numbers") {
    const value = column.values[row] ?? Number.NaN;
    return Number.isNaN(value) ? "" : String(value);
  }
  const [first = 0, end = 0] = [column.offsets[row], column.offsets[row + 1]];
  const entries =
    column.form === "lists"
      ? Array.from(column.values.subarray(first, end), String)
      : textsAt(column, row).map((text, i) => {
          const weight = column.weights?.[first + i];
          return weight === undefined ? decodeText(text) : `${decodeText(text)}:${weight}`;
        });
  return `[${entries.join(", ")}]`;
}

function resultOf(
  { model }: JobSpec,
  sample: Sample,
  fault: LineFault | undefined,
): Pick<TransformedRow, "dense" | "bags" | "fault"> {
  if (fault !== undefined) return { fault: sentenceOf(fault) };
  let at = 0;
  const bags = shapesOf(model).map(({ name, idBits }, feature) => {
    const ids = Array.from({ length: sample.lengths[feature] ?? 0 }, () => {
      const [low, high] = [sample.ids[at] ?? 0, sample.highs[at] ?? 0];
      at++;
      return idBits === 64 ? String(BigInt(high) * 0x1_0000_0000n + BigInt(low >>> 0)) : low;
    });
    return [name, ids] as const;
  });
  return { dense: [...sample.dense], bags: Object.fromEntries(bags) };
}
