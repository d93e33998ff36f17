// Predicts every line of text files, and writes the lines again with one more column. Lines are
// decoded as in training; a chunk of lines is in memory at a time.

import { BatchRows } from "../../src/data/batch-rows.ts";
import { isTable } from "../../src/data/data-kinds.ts";
import { shownPath } from "../../src/data/remote/addresses.ts";
import { factsOfAll } from "../../src/data/remote/file-facts.ts";
import { Sample } from "../../src/data/sample.ts";
import { labelsOf, targetColumnsOf } from "../../src/data/targets.ts";
import {
  type Columns,
  criteoColumns,
  csvColumns,
  denseOf,
  wideOf,
} from "../../src/data/text/columns.ts";
import { type Fault, sentenceOf } from "../../src/data/text/faults.ts";
import { headerNames } from "../../src/data/text/header.ts";
import { jsonColumns } from "../../src/data/text/json-columns.ts";
import { hasKey, objectIn, withMembers } from "../../src/data/text/json-lines.ts";
import { decodeFeatures, fieldsOf } from "../../src/data/text/line-decoder.ts";
import { lineTransforms, MadeLines } from "../../src/data/text/made-lines.ts";
import { weightedOf } from "../../src/data/text/match-features.ts";
import { type LineChunk, lineBytesMax, readLines } from "../../src/data/text/text-lines.ts";
import type { CompiledTransforms } from "../../src/data/transforms/compile.ts";
import { InputUnusableError, InvalidOptionError } from "../../src/errors/errors.ts";
import type { JobSpec } from "../../src/job/job.ts";
import { filesNamed } from "../../src/job/job-files.ts";
import { shapesOf } from "../../src/model/features.ts";
import { type DiskFile, realDisk } from "../../src/ports/disk.ts";
import { shownJson } from "../../src/ports/json/exact-json.ts";
import { batchSamplesMax } from "../../src/serving/scorer.ts";
import { type Pack, packOf } from "../disk/packing.ts";
import { writeWhole } from "../disk/whole-file.ts";
import type { Model } from "./model.ts";
import {
  addedColumns,
  noNumberBecause,
  type PredictFileOptions,
  type PredictReport,
  predictedColumns,
  predictedValues,
  shownNumber,
  TaskMeans,
  usualColumn,
} from "./predict-report.ts";
import { openOutput, outputFormatOf } from "./prediction-output.ts";
import { textOut } from "./text-probabilities.ts";

/**
 * Writes the lines of `data` to `out` with the probability of the label 1, or the value of a label
 * that is a number, at the end of each. `data`: paths of files on a disk or a server, of
 * directories, and patterns, as in a job's `data.paths`; the files are read in that order, and
 * those of CSV have one header. Where the name of `out` ends as another format, `.csv`, `.jsonl`,
 * `.parquet` or `.arrow`, it has the number of each line of all files, the columns of `keep`, and
 * the predictions instead. `.gz` and `.zst` behind an ending of text pack it. The files have the
 * columns of the model's training data, with or without the label; other columns stay as they are.
 * Plain or gzip. A model of files of columns reads such files, and writes a file of rows and
 * probabilities (predict-table.ts).
 * @throws InvalidOptionError where a column is missing, or `column` is in a file
 * @throws InputUnusableError where it cannot be read or `out` cannot be written
 */
export async function predictFile(
  model: Model,
  data: string | readonly string[],
  out: string,
  given: PredictFileOptions = {},
): Promise<PredictReport> {
  const options = { ...given, calibrations: given.calibrations ?? model.calibrations };
  const { disk = realDisk, onProgress, signal, column = usualColumn(model.job) } = options;
  const files = await filesNamed(model.job.data, typeof data === "string" ? [data] : data);
  if (isTable(model.job.data)) {
    const { predictTables } = await import("./predict-table.ts");
    return predictTables(model, files, out, options);
  }
  const facts = await factsOfAll(files);
  const size = facts.reduce((sum, { bytes }) => sum + bytes, 0);
  const { format, packed } = outputFormatOf(out);
  const { kind } = model.job.data;
  const delimiter = kind === "csv" ? model.job.data.delimiter : undefined;
  // Lines stay as they are in a file of the same kind, and in one whose name says nothing.
  const isOfKind = format === kind || (kind === "criteo-tsv" && format === "csv");
  const isRewritten = format === undefined || isOfKind;
  if (isRewritten && options.keep !== undefined) throw noKeep(out);
  const scorer = new LineScorer(model, column, options);
  let read = 0;
  const bytes = await writeWhole(disk, out, async (file) => {
    const sink = isRewritten
      ? scorer.rewriter(file, await packOf(packed))
      : await scorer.rowWriter(file, { format, packed });
    for (const [i, file] of files.entries()) {
      scorer.begin(shownPath(file));
      for await (const chunk of readLines(file, delimiter)) {
        await sink.write(await scorer.score(chunk));
        onProgress?.(read + chunk.bytesRead, size);
        signal?.throwIfAborted();
      }
      read += facts[i]?.bytes ?? 0;
    }
    await sink.finish();
  });
  return { ...scorer.report(), file: out, bytes };
}

function noKeep(out: string): InvalidOptionError {
  const message = `Expected \`keep\` with a file of another format than the lines that are read`;
  return new InvalidOptionError("keep", `${message}: ${out} has all columns of its lines`);
}

/** A line, and its predictions as `predictedValues` has them; undefined: the line is a bad one. */
interface ScoredLine extends NumberedLine {
  readonly values: readonly number[] | undefined;
}

/** Lines that were scored; `header`: the first line of the first file of CSV. */
interface ScoredLines {
  readonly header: string | undefined;
  readonly lines: readonly ScoredLine[];
}

/** Where scored lines go. */
interface LineSink {
  write(scored: ScoredLines): void | Promise<void>;
  finish(): void | Promise<void>;
}

/** Scores lines, chunk after chunk, and counts what they come to. */
class LineScorer {
  readonly #model: Model;
  readonly #column: string;
  readonly #transforms: CompiledTransforms | undefined;
  readonly #options: PredictFileOptions;
  readonly #means: TaskMeans;
  /** The columns that are added. */
  readonly #names: readonly string[];
  /** The file that is scored. */
  #path = "";
  #columns: Columns | undefined;
  /** The header of the first file of CSV. */
  #header: string | undefined;
  #isRewritten = false;
  #places: readonly number[] = [];
  #bad = 0;
  #firstBad: PredictReport["firstBad"];

  constructor(model: Model, column: string, options: PredictFileOptions) {
    this.#model = model;
    this.#column = column;
    this.#options = options;
    this.#means = new TaskMeans(model.tasks);
    this.#names = predictedColumns(model.tasks, column, options);
    this.#transforms = lineTransforms(model.job.data);
  }

  /** A file begins. */
  begin(path: string): void {
    this.#path = path;
    this.#columns = undefined;
  }

  report(): Pick<PredictReport, "samples" | "bad" | "firstBad" | "means"> {
    return { ...this.#means.report(), bad: this.#bad, firstBad: this.#firstBad };
  }

  /** Writes each line again, with its predictions at its end. */
  rewriter(file: DiskFile, pack: Pack): LineSink {
    const write = textOut(file, pack);
    this.#isRewritten = true;
    return {
      write: ({ header, lines }) => {
        const { delimiter = ",", json } = this.#columns ?? {};
        const names = Buffer.from(this.#names.join(delimiter)).toString("latin1");
        const first = header === undefined ? "" : `${header}${delimiter}${names}\n`;
        const others = lines.map(({ text, values }) => {
          const shown = this.#names.map((_, i) => shownNumber(values?.[i]));
          if (json !== undefined) return `${withMembers(text, this.#names, shown)}\n`;
          return `${text}${delimiter}${shown.join(delimiter)}\n`;
        });
        write(Buffer.from(first + others.join(""), "latin1"));
      },
      finish() {},
    };
  }

  /** Writes the number of each line, from 0, kept columns and predictions. */
  async rowWriter(file: DiskFile, output: Parameters<typeof openOutput>[1]): Promise<LineSink> {
    const { keep = [] } = this.#options;
    const writer = await openOutput(file, output, { kept: keep, names: this.#names });
    let row = 0;
    return {
      write: async ({ lines }) => {
        if (lines.length === 0) return;
        const rows = lines.map(() => row++);
        const fields = lines.map(({ text }) => this.#keptOf(text, keep));
        const kept = keep.map((_, i) => fields.map((own) => own[i] ?? null));
        const values = this.#names.map((_, i) => lines.map((line) => line.values?.[i] ?? null));
        await writer.write(rows, kept, values);
      },
      finish: () => writer.finish(),
    };
  }

  /** The fields of a line that are kept, as they are. */
  #keptOf(line: string, keep: readonly string[]): (string | null)[] {
    if (keep.length === 0) return [];
    const columns = this.#columns as Columns;
    const utf8 = (text: string) => Buffer.from(text, "latin1").toString("utf8");
    if (columns.json !== undefined) {
      const value = objectIn(line) ?? {};
      return keep.map((name) => {
        const own = Object.hasOwn(value, name) ? value[name] : null;
        if (own === null) return null;
        return typeof own === "string" ? own : shownJson(own);
      });
    }
    const fields = fieldsOf(line, columns);
    return this.#places.map((place) => {
      const own = Array.isArray(fields) ? fields[place] : undefined;
      return own === undefined || own === "" ? null : utf8(own);
    });
  }

  /** Finds the columns to keep. @throws InvalidOptionError where there is none of a name */
  #placeKept(header: string): void {
    const { data } = this.#model.job;
    const { keep = [] } = this.#options;
    if (data.kind === "jsonl" || keep.length === 0) return;
    const delimiter = data.kind === "csv" ? data.delimiter : "\t";
    const names = data.kind === "csv" ? headerNames(this.#path, header, delimiter) : [];
    this.#places = keep.map((name) => {
      const place = names.indexOf(name);
      if (place >= 0) return place;
      const message = `Expected \`keep\` to name columns of ${this.#path}, got \`${name}\``;
      throw new InvalidOptionError("keep", message);
    });
  }

  /** Lines of all files stand below one header. @throws InvalidOptionError for another header */
  #checkHeader(header: string): void {
    if (this.#header === undefined || header === this.#header) return;
    const wanted = `Expected all files to have the header of the first one, ${this.#header}`;
    const advice = "write a file of another format, which has row numbers and predictions";
    throw new InvalidOptionError("data", `${wanted}; ${this.#path} has ${header}: ${advice}`);
  }

  /** The lines with their predictions. Blank lines are left out. */
  async score({ lines, lineOf }: LineChunk): Promise<ScoredLines> {
    const left = lines.flatMap((text, i): NumberedLine[] => {
      const line = lineOf(i);
      if (text === undefined) throw this.#tooLong(line);
      return text === "" ? [] : [{ line, text }];
    });
    let header: string | undefined;
    if (this.#columns === undefined && left[0] !== undefined) {
      const { data } = this.#model.job;
      const [{ text }] = left;
      this.#columns = columnsOf(this.#model.job, text, this.#path, this.#column);
      this.#placeKept(text);
      if (data.kind === "csv") {
        left.shift();
        header = this.#header === undefined ? text : undefined;
        if (this.#isRewritten) this.#checkHeader(text);
        this.#header ??= text;
      }
    }
    const scored: ScoredLine[] = [];
    for (let from = 0; from < left.length; from += batchSamplesMax) {
      scored.push(...(await this.#scoreSome(left.slice(from, from + batchSamplesMax))));
    }
    return { header, lines: scored };
  }

  async #scoreSome(lines: readonly NumberedLine[]): Promise<ScoredLine[]> {
    const { job } = this.#model;
    const tables = shapesOf(job.model);
    const columns = this.#columns as Columns;
    const dense = denseOf(job.data);
    const sample = new Sample({ dense, features: tables.length });
    const weighted = weightedOf(job.data, tables);
    const { means } = this.#model;
    const rows = new BatchRows(lines.length, { dense, wide: wideOf(tables), weighted, means });
    const texts = lines.map(({ text }) => text);
    const transforms = this.#transforms;
    // Sampling is of training data: every line has a probability.
    const made =
      transforms && new MadeLines(transforms, columns, texts, { place: 0, firstLine: 1 });
    const faults = lines.map(({ text }, i) => {
      const fault =
        made === undefined ? decode(sample, text, columns) : made.decodeFeatures(sample, i);
      if (fault !== undefined) sample.clear(); // Empty bags in the bad line's place.
      rows.add(i, sample);
      return fault;
    });
    const logits = await this.#model.logitsOf(rows.batch());
    const { length: tasks } = this.#model.tasks;
    return lines.map(({ line, text }, i) => {
      const own = logits.subarray(i * tasks, (i + 1) * tasks);
      return { line, text, values: this.#counted(line, faults[i], own) };
    });
  }

  /** The values of a line, where it is a sample; those of the first task are counted. */
  #counted(line: number, fault: Fault | undefined, logits: Float32Array): number[] | undefined {
    const values = predictedValues(logits, this.#model.numeric, this.#options);
    const reason = fault === undefined ? noNumberBecause(values) : sentenceOf(fault);
    if (reason === undefined) {
      this.#means.add(values);
      return values;
    }
    this.#bad++;
    this.#firstBad ??= { file: this.#path, line, reason };
    return undefined;
  }

  #tooLong(line: number): InputUnusableError {
    const message = `${this.#path}:${line} is longer than ${lineBytesMax} bytes`;
    return new InputUnusableError(this.#path, message);
  }
}

function hasColumn(path: string, name: string): InvalidOptionError {
  const message = `${path} has a column \`${name}\` already: name another for the result`;
  return new InvalidOptionError("column", message);
}

interface NumberedLine {
  /** Number in the file, from 1. */
  readonly line: number;
  /** One byte per character. */
  readonly text: string;
}

/** Fills `sample` from a line, which may have no label. Returns the line's fault, if any. */
function decode(sample: Sample, line: string, columns: Columns): Fault | undefined {
  const fields = fieldsOf(line, columns);
  return Array.isArray(fields) ? decodeFeatures(sample, fields, columns) : fields;
}

/** The columns of a file by its first line. The label may be missing. */
function columnsOf({ data, model }: JobSpec, first: string, path: string, column: string): Columns {
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
        dense: columns.dense.map(shifted),
        categorical: columns.categorical.map(shifted),
      };
    }
    case "csv": {
      const names = headerNames(path, first, data.delimiter);
      const added = addedColumns(labelsOf(data), column).find((name) => names.includes(name));
      if (added !== undefined) throw hasColumn(path, added);
      const targets = targetColumnsOf(data).filter((name) => !names.includes(name));
      const labelled = [...names, ...targets];
      return { ...csvColumns(data, shapesOf(model), path, labelled), fields: names.length };
    }
    case "jsonl": {
      const added = addedColumns(labelsOf(data), column).find((name) => hasKey(first, name));
      if (added !== undefined) throw hasColumn(path, added);
      return jsonColumns(data, shapesOf(model), path);
    }
    case "arrow":
    case "parquet":
      throw new TypeError("a file of columns is not read line by line");
    case "synthetic": {
      const message = "The model was trained on generated data, which no file has";
      throw new InvalidOptionError("data", `${message}: use \`Model.predict\` in a program`);
    }
    default:
      return data satisfies never;
  }
}
