// Predicts every line of text files, and writes the lines with their predictions appended. Lines
// are decoded as in training; one chunk of lines is in memory at a time.

import {
  batchSamplesMax,
  type Columns,
  type CompiledTransforms,
  createRowEncoder,
  criteoColumns,
  csvColumns,
  type DiskFile,
  factsOfAll,
  fieldsOf,
  filesNamed,
  hasKey,
  headerNames,
  InputUnusableError,
  InvalidOptionError,
  isTable,
  type JobSpec,
  jsonColumns,
  LineBatch,
  type LineChunk,
  labelsOf,
  lineBytesMax,
  linesOf,
  type Model,
  objectIn,
  type Pack,
  packOf,
  type RowEncoder,
  readLines,
  realDisk,
  shapesOf,
  shownJson,
  shownPath,
  targetColumnsOf,
  transformsFor,
  withMembers,
  writeWhole,
} from "../../../internal.ts";
import { asInLine, dataOf } from "./predict-data.ts";
import {
  addedColumns,
  type PredictFileOptions,
  type PredictReport,
  predictedColumns,
  shownNumber,
  usualColumn,
} from "./predict-report.ts";
import { openOutput, outputFormatOf } from "./prediction-output.ts";
import { SampleScorer } from "./sample-scorer.ts";
import { textOut } from "./text-probabilities.ts";

/**
 * Writes the lines of `data` to `out`, each followed by the probability of the label 1, or the
 * value of a numeric label. `data`: paths of files on a disk or a server, directories, and
 * patterns, as in a job's `data.paths`; files are read in that order, and CSV files share one
 * header. If the ending of `out` is another format (`.csv`, `.jsonl`, `.parquet` or `.arrow`), each
 * line's number over all files, the columns of `keep` and the predictions are written instead. A
 * further ending `.gz` or `.zst` compresses a text file. The files have the columns of the model's
 * training data, with or without the label; other columns are copied. Files of another format than
 * the training data's have the same columns (predict-data.ts); for columnar files, rows and
 * predictions are written (predict-table.ts).
 * @throws InvalidOptionError where a column is missing, or `column` is in a file
 * @throws InputUnusableError where a file cannot be read or `out` cannot be written
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
  const read = dataOf(model.job.data, files);
  if (isTable(read)) {
    const { predictTables } = await import("./predict-table.ts");
    return predictTables(model, { data: read, files }, out, options);
  }
  const facts = await factsOfAll(files);
  const size = facts.reduce((sum, { bytes }) => sum + bytes, 0);
  const { format, packed } = outputFormatOf(out);
  const { kind } = read;
  const delimiter = kind === "csv" ? read.delimiter : undefined;
  // Lines are copied if `out` has the same format, or an ending of no known format.
  const isOfKind = format === kind || (kind === "criteo-tsv" && format === "csv");
  const isRewritten = format === undefined || isOfKind;
  if (isRewritten && options.keep !== undefined) throw noKeep(out);
  const scorer = new LineScorer(model, read, column, options);
  let bytesRead = 0;
  const bytes = await writeWhole(disk, out, async (file) => {
    const sink = isRewritten
      ? scorer.rewriter(file, await packOf(packed))
      : await scorer.rowWriter(file, { format, packed });
    for (const [i, file] of files.entries()) {
      scorer.begin(shownPath(file));
      for await (const chunk of readLines(file, delimiter)) {
        await sink.write(await scorer.score(chunk));
        onProgress?.(bytesRead + chunk.bytesRead, size);
        signal?.throwIfAborted();
      }
      bytesRead += facts[i]?.bytes ?? 0;
    }
    await sink.finish();
  });
  return { ...scorer.report(), file: out, bytes };
}

function noKeep(out: string): InvalidOptionError {
  const message = `Expected \`keep\` with a file of another format than the lines that are read`;
  return new InvalidOptionError("keep", `${message}: ${out} has all columns of its lines`);
}

/** A line, and its predictions (`predictedValues`); undefined: the line is bad. */
interface ScoredLine extends NumberedLine {
  readonly values: readonly number[] | undefined;
}

/** A chunk of scored lines; `header`: only with the first chunk of the first CSV file. */
interface ScoredLines {
  readonly header: string | undefined;
  readonly lines: readonly ScoredLine[];
}

/** The output of scored lines. */
interface LineSink {
  write(scored: ScoredLines): void | Promise<void>;
  finish(): void | Promise<void>;
}

/** Scores lines chunk by chunk, and accumulates the report. */
class LineScorer {
  readonly #model: Model;
  /** The data section with which the files are read. */
  #data: JobSpec["data"];
  readonly #column: string;
  #transforms: CompiledTransforms | undefined;
  readonly #options: PredictFileOptions;
  readonly #scorer: SampleScorer;
  /** Names of the prediction columns. */
  readonly #names: readonly string[];
  /** The file that is being scored. */
  #path = "";
  #columns: Columns | undefined;
  #encoder: RowEncoder | undefined;
  /** The header of the first file of CSV. */
  #header: string | undefined;
  #isRewritten = false;
  #places: readonly number[] = [];

  constructor(model: Model, data: JobSpec["data"], column: string, options: PredictFileOptions) {
    this.#model = model;
    this.#data = data;
    this.#column = column;
    this.#options = options;
    this.#scorer = new SampleScorer(model, options);
    this.#names = predictedColumns(model.tasks, column, options);
    this.#transforms = transformsFor(data);
  }

  /** Starts the next file. */
  begin(path: string): void {
    this.#path = path;
    this.#scorer.begin(path);
    this.#columns = undefined;
  }

  report(): Pick<PredictReport, "samples" | "bad" | "firstBad" | "means"> {
    return this.#scorer.report();
  }

  /** A sink that copies each line and appends its predictions. */
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

  /** A sink that writes each line's number, from 0, kept columns and predictions. */
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

  /** A line's values of the kept columns, as text; null: missing. */
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

  /** Locates the columns to keep. @throws InvalidOptionError where one is missing */
  #placeKept(header: string): void {
    const data = this.#data;
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

  /** All files must have the same header, as the output has one. @throws InvalidOptionError */
  #checkHeader(header: string): void {
    if (this.#header === undefined || header === this.#header) return;
    const wanted = `Expected all files to have the header of the first one, ${this.#header}`;
    const advice = "write a file of another format, which has row numbers and predictions";
    throw new InvalidOptionError("data", `${wanted}; ${this.#path} has ${header}: ${advice}`);
  }

  /** Scores a chunk of lines. Blank lines are dropped. */
  async score({ lines, lineOf }: LineChunk): Promise<ScoredLines> {
    const left = lines.flatMap((text, i): NumberedLine[] => {
      const line = lineOf(i);
      if (text === undefined) throw this.#tooLong(line);
      return text === "" ? [] : [{ line, text }];
    });
    let header: string | undefined;
    if (this.#columns === undefined && left[0] !== undefined) {
      const [{ text }] = left;
      const data = this.#dataBy(text);
      const { model } = this.#model.job;
      const columns = columnsOf({ data, model }, text, this.#path, this.#column);
      this.#columns = columns;
      this.#encoder = createRowEncoder(columns, columns.header, undefined, this.#transforms);
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

  /** The data section, adjusted to whether columns have lists or texts in the first JSON line. */
  #dataBy(line: string): JobSpec["data"] {
    const data = this.#data;
    if (data.kind !== "jsonl" || data.kind === this.#model.job.data.kind) return data;
    this.#data = asInLine(data, line);
    this.#transforms = transformsFor(this.#data);
    return this.#data;
  }

  async #scoreSome(lines: readonly NumberedLine[]): Promise<ScoredLine[]> {
    const encoder = this.#encoder as RowEncoder;
    const texts = linesOf(lines.map(({ text }) => text));
    // Negative downsampling applies to training only: every line gets a prediction.
    encoder.begin(new LineBatch(this.#columns as Columns, texts, 1));
    const scored = await this.#scorer.score({
      count: lines.length,
      decode: (sample, i) => encoder.encodeFeatures(sample, i),
      lineOf: (i) => lines[i]?.line ?? 0,
    });
    return lines.map((line, i) => ({ ...line, values: scored[i] }));
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

/** The columns of a file by its first line. The label may be missing. */
function columnsOf(
  { data, model }: Pick<JobSpec, "data" | "model">,
  first: string,
  path: string,
  column: string,
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
      const added = addedColumns(labelsOf(data), column).find((name) => names.includes(name));
      if (added !== undefined) throw hasColumn(path, added);
      const targets = targetColumnsOf(data).filter((name) => !names.includes(name));
      return csvColumns(data, shapesOf(model), path, names, undefined, targets);
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
