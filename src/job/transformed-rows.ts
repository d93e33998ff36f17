// Shows how a job reads the first rows of a file: the columns that it reads, the columns that
// transforms make of them, and the sample. For people who write transforms.

import { madeBatch } from "../data/columnar/made-batch.ts";
import type { FieldColumns } from "../data/columnar/named-columns.ts";
import { createRowEncoder } from "../data/columnar/row-encoder.ts";
import { textsAt } from "../data/columnar/row-text.ts";
import { isTable } from "../data/data-kinds.ts";
import type { ResolvedTableOptions } from "../data/options.ts";
import { Sample } from "../data/sample.ts";
import { targetsOf } from "../data/targets.ts";
import { denseOf } from "../data/text/columns.ts";
import { decodeText, type LineFault, sentenceOf } from "../data/text/faults.ts";
import { beforeWeight, betweenIds } from "../data/text/json-lines.ts";
import { decodeFeatures, fieldsOf } from "../data/text/line-decoder.ts";
import { lineTransforms, MadeLines } from "../data/text/made-lines.ts";
import { textLines } from "../data/text/text-fields.ts";
import type { CompiledTransforms } from "../data/transforms/compile.ts";
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
  const { data } = job;
  const rows: TransformedRow[] = [];
  const add = (row: TransformedRow) => rows.push(row) < rowsMax;
  if (data.kind === "synthetic") {
    const message = "Expected `data.kind` to be one of files, as generated data is in none";
    throw new InvalidOptionError("data.kind", `${message}, got \`synthetic\``);
  }
  if (isTable(data)) await addTableRows(job, data, path, add);
  else await addLines(job, data, path, add);
  return rows;
}

type FileData = Exclude<JobSpec["data"], { kind: "synthetic" }>;
type TextData = Exclude<FileData, ResolvedTableOptions>;
/** Adds a row; returns whether more rows are wanted. */
type Add = (row: TransformedRow) => boolean;

function newSample({ model }: JobSpec, data: FileData): Sample {
  const features = shapesOf(model).length;
  return new Sample({ dense: denseOf(data), features, targets: targetsOf(data) });
}

async function addLines(job: JobSpec, data: TextData, path: string, add: Add): Promise<void> {
  const transforms = lineTransforms(data);
  const sample = newSample(job, data);
  for await (const { columns, lines } of textLines(path, data, shapesOf(job.model))) {
    const names = readNames(columns, transforms);
    for (const { line, record, text } of lines) {
      const fields = fieldsOf(text, columns);
      const whole = Array.isArray(fields) ? fields : [];
      const shown = names.map(([name, field]) => [name, shownText(whole[field] ?? "")]);
      const read = Object.fromEntries(shown);
      const made =
        transforms && new MadeLines(transforms, columns, [text], { place: 0, firstLine: record });
      const fault = !Array.isArray(fields)
        ? fields
        : made === undefined
          ? decodeFeatures(sample, fields, columns)
          : made.decodeFeatures(sample, 0);
      const outputs = shownColumns(transforms, (name) => made?.made.columns.get(name), 0);
      const row = { row: line, read, made: outputs, isKept: made?.isKept(0) !== false };
      if (!add({ ...row, ...resultOf(job, sample, fault) })) return;
    }
  }
}

/** A field as text for display: `|` separates the ids of a JSON list, and `:` their weights. */
function shownText(field: string): string {
  return decodeText(field.replaceAll(betweenIds, "|").replaceAll(beforeWeight, ":"));
}

async function addTableRows(
  job: JobSpec,
  data: ResolvedTableOptions,
  path: string,
  add: Add,
): Promise<void> {
  const { openTable } = await import("../data/tables/open-table.ts");
  const { wantedRows } = await import("../data/tables/wanted-rows.ts");
  const transforms = lineTransforms(data);
  const sample = newSample(job, data);
  const shapes = shapesOf(job.model);
  const table = await openTable(path, data, shapes, undefined, []);
  const { columns, header } = table;
  try {
    const encoder = createRowEncoder(columns, header, undefined, transforms);
    const names = readNames(columns, transforms);
    for await (const { batch } of wantedRows(table)) {
      const made = transforms && madeBatch(transforms, columns, header, batch, 0);
      encoder.begin(batch);
      for (let row = 0; row < batch.rows; row++) {
        const shown = names.map(([name]) => {
          const column = batch.columns.get(name);
          return [name, column === undefined ? "" : decodeText(textsAt(column, row).join("|"))];
        });
        const outputs = shownColumns(transforms, (name) => made?.columns.get(name), row);
        const about = {
          row: batch.firstRow + row + 1,
          read: Object.fromEntries(shown),
          made: outputs,
        };
        const fault = encoder.encodeFeatures(sample, row);
        const isKept = encoder.isKept(row);
        if (!add({ ...about, isKept, ...resultOf(job, sample, fault) })) return;
      }
    }
  } finally {
    await table.close();
  }
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
