// Reads text files for prediction, chunk by chunk: each line that is not blank is a row.

import {
  type Columns,
  createRowEncoder,
  criteoColumns,
  csvColumns,
  fieldsOf,
  hasKey,
  headerNames,
  InputUnusableError,
  InvalidOptionError,
  type JobSpec,
  jsonColumns,
  LineBatch,
  type LineChunk,
  lineBytesMax,
  linesOf,
  objectIn,
  type ResolvedTableOptions,
  type RowEncoder,
  readLines,
  shapesOf,
  shownJson,
  shownPath,
  targetColumnsOf,
  transformsFor,
} from "../../../internal.ts";
import { asInLine } from "./input-data.ts";
import type { DecodedRows } from "./sample-scorer.ts";

/** Lines to be copied to the output. */
export interface CopiedLines {
  /** The header of CSV files, with the first rows of the first file; undefined elsewhere. */
  readonly header: string | undefined;
  /** The lines without line breaks, one byte per character. */
  readonly texts: readonly string[];
  /** Undefined: the lines are JSON. */
  readonly delimiter: string | undefined;
}

/** Consecutive rows of a file, valid until the next ones. */
export interface InputRows extends DecodedRows {
  /** Number of the first row over all files, from 0. */
  readonly firstRow: number;
  /** Bytes of the file that were read so far. */
  readonly bytesRead: number;
  /** The texts of the kept columns, by column and row; null: missing. */
  kept(): (string | null)[][];
  /** Undefined: the rows have no lines that could be copied. */
  readonly lines: CopiedLines | undefined;
}

/** The files of one format, in the order of the calls. */
export interface PredictionInput {
  /** Reads a file of `bytes` bytes. @throws InvalidOptionError, InputUnusableError */
  read(path: string, bytes: number): AsyncGenerator<InputRows>;
}

type TextData = Exclude<JobSpec["data"], ResolvedTableOptions>;

interface LineOptions {
  /** Names of columns to keep. */
  readonly keep: readonly string[];
  /** Whether lines are copied to the output, which has one header. */
  readonly isCopied: boolean;
  /** Names of the columns that the output adds, which no file may have. */
  readonly added: readonly string[];
}

/** Reads lines by the data section `data`, for a model that was trained on another or the same. */
export function lineInput(
  { data: trained, model }: Pick<JobSpec, "data" | "model">,
  data: TextData,
  { keep, isCopied, added }: LineOptions,
): PredictionInput {
  let options = data;
  let transforms = transformsFor(options);
  let firstHeader: string | undefined;
  let rowCount = 0;
  return {
    async *read(file) {
      const path = shownPath(file);
      let columns: Columns | undefined;
      let encoder: RowEncoder | undefined;
      let places: readonly number[] = [];
      for await (const chunk of readLines(file, delimiterOf(options))) {
        const lines = numberedLines(chunk, path);
        let header: string | undefined;
        const [first] = lines;
        if (columns === undefined && first !== undefined) {
          if (options.kind === "jsonl" && trained.kind !== "jsonl") {
            options = asInLine(options, first.text);
            transforms = transformsFor(options);
          }
          columns = columnsOf({ data: options, model }, first.text, path, added);
          encoder = createRowEncoder(columns, columns.header, undefined, transforms);
          places = placesOf(options, keep, first.text, path);
          if (options.kind === "csv") {
            lines.shift();
            header = firstHeader === undefined ? first.text : undefined;
            firstHeader ??= first.text;
            if (isCopied && first.text !== firstHeader)
              throw otherHeader(path, first.text, firstHeader);
          }
        }
        if (columns === undefined) continue;
        const texts = lines.map(({ text }) => text);
        // Negative downsampling applies to training only: every line gets a prediction.
        encoder?.begin(new LineBatch(columns, linesOf(texts), 1));
        yield {
          ...{ path, count: lines.length, firstRow: rowCount, bytesRead: chunk.bytesRead },
          lineOf: (i) => lines[i]?.line ?? 0,
          decode: (sample, i) => encoder?.encodeFeatures(sample, i),
          kept: keptOf(columns, texts, keep, places),
          lines: { header, texts, delimiter: columns.json ? undefined : columns.delimiter },
        };
        rowCount += lines.length;
      }
    },
  };
}

interface NumberedLine {
  /** Number in the file, from 1. */
  readonly line: number;
  /** One byte per character. */
  readonly text: string;
}

/** The lines of a chunk that are not blank. @throws InputUnusableError where one is too long */
function numberedLines({ lines, lineOf }: LineChunk, path: string): NumberedLine[] {
  return lines.flatMap((text, i): NumberedLine[] => {
    if (text !== undefined) return text === "" ? [] : [{ line: lineOf(i), text }];
    const message = `${path}:${lineOf(i)} is longer than ${lineBytesMax} bytes`;
    throw new InputUnusableError(path, message);
  });
}

/** The output has one header. */
function otherHeader(path: string, header: string, first: string): InvalidOptionError {
  const wanted = `Expected all files to have the header of the first file, ${first}`;
  const advice = "write a file of another format, which has row numbers and predictions";
  return new InvalidOptionError("data", `${wanted}; ${path} has ${header}: ${advice}`);
}

/** The fields of the kept columns. @throws InvalidOptionError where a column is missing */
function placesOf(
  data: TextData,
  keep: readonly string[],
  header: string,
  path: string,
): readonly number[] {
  if (data.kind === "jsonl") return [];
  const names = data.kind === "csv" ? headerNames(path, header, data.delimiter) : [];
  return keep.map((name) => {
    const place = names.indexOf(name);
    if (place >= 0) return place;
    const message = `Expected \`keep\` to name columns of ${path}, got \`${name}\``;
    throw new InvalidOptionError("keep", message);
  });
}

/** The texts of the kept columns. */
function keptOf(
  columns: Columns,
  texts: readonly string[],
  keep: readonly string[],
  places: readonly number[],
): InputRows["kept"] {
  const ofLine = (line: string): (string | null)[] => {
    if (columns.json !== undefined) {
      const value = objectIn(line) ?? {};
      return keep.map((name) => {
        const member = Object.hasOwn(value, name) ? value[name] : null;
        if (member === null) return null;
        return typeof member === "string" ? member : shownJson(member);
      });
    }
    const fields = fieldsOf(line, columns);
    return places.map((place) => {
      const field = Array.isArray(fields) ? fields[place] : undefined;
      return field === undefined || field === ""
        ? null
        : Buffer.from(field, "latin1").toString("utf8");
    });
  };
  return () => {
    const rows = keep.length === 0 ? [] : texts.map(ofLine);
    return keep.map((_, column) => rows.map((row) => row[column] ?? null));
  };
}

function delimiterOf(data: TextData): string | undefined {
  return data.kind === "csv" ? data.delimiter : undefined;
}

/** The columns of a file by its first line. The label may be missing. */
function columnsOf(
  { data, model }: { readonly data: TextData; readonly model: JobSpec["model"] },
  first: string,
  path: string,
  added: readonly string[],
): Columns {
  switch (data.kind) {
    case "criteo-tsv": {
      const columns = criteoColumns(shapesOf(model));
      if (first.split("\t").length !== columns.fields - 1) return columns;
      const shifted = <Field extends { readonly field: number }>(one: Field) => {
        return { ...one, field: one.field - 1 };
      };
      return {
        ...columns,
        fields: columns.fields - 1,
        header: columns.header.slice(1),
        dense: columns.dense.map(shifted),
        categorical: columns.categorical.map(shifted),
      };
    }
    case "csv": {
      const names = headerNames(path, first, data.delimiter);
      refuseAdded(path, added, (name) => names.includes(name));
      const targets = targetColumnsOf(data).filter((name) => !names.includes(name));
      return csvColumns(data, shapesOf(model), path, names, undefined, targets);
    }
    case "jsonl":
      refuseAdded(path, added, (name) => hasKey(first, name));
      return jsonColumns(data, shapesOf(model), path);
    case "synthetic": {
      const message = "The model was trained on generated data, which no file has";
      throw new InvalidOptionError("data", `${message}: use \`Model.predict\` in a program`);
    }
    default:
      return data satisfies never;
  }
}

/** @throws InvalidOptionError where the file has one of the columns that the output adds */
function refuseAdded(
  path: string,
  added: readonly string[],
  isThere: (name: string) => boolean,
): void {
  const name = added.find(isThere);
  if (name === undefined) return;
  const message = `${path} has a column \`${name}\` already: name another for the result`;
  throw new InvalidOptionError("column", message);
}
