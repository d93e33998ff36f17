// Predicts every line of a text file, and writes the file again with one more column. Lines are
// decoded as in training; a chunk of lines is in memory at a time.

import { BatchRows } from "../../src/data/batch-rows.ts";
import { isTable } from "../../src/data/data-kinds.ts";
import { shownPath } from "../../src/data/remote/addresses.ts";
import { factsOf } from "../../src/data/remote/file-facts.ts";
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
import { hasKey, withMembers } from "../../src/data/text/json-lines.ts";
import { decodeFeatures, fieldsOf } from "../../src/data/text/line-decoder.ts";
import { lineTransforms, MadeLines } from "../../src/data/text/made-lines.ts";
import { weightedOf } from "../../src/data/text/match-features.ts";
import { lineBytesMax, readLines } from "../../src/data/text/text-lines.ts";
import type { CompiledTransforms } from "../../src/data/transforms/compile.ts";
import { InputUnusableError, InvalidOptionError } from "../../src/errors/errors.ts";
import type { JobSpec } from "../../src/job/job.ts";
import { shapesOf } from "../../src/model/features.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { batchSamplesMax } from "../../src/serving/scorer.ts";
import { writeWhole } from "../disk/whole-file.ts";
import type { Model } from "./model.ts";
import {
  addedColumns,
  type PredictFileOptions,
  type PredictReport,
  usualColumn,
} from "./predict-report.ts";

/**
 * Writes `address`, a file on a disk or a server, to `out` with the probability of the label 1, or
 * the value of a label that is a number, at the end of each line. The file has the columns of the
 * model's training data, with or without the label; other columns stay as they are. Plain or gzip;
 * the result is plain. A model of files of columns reads one, and writes a file of rows and
 * probabilities (predict-table.ts).
 * @throws InvalidOptionError where a column is missing, or `column` is in the file
 * @throws InputUnusableError where it cannot be read or `out` cannot be written
 */
export async function predictFile(
  model: Model,
  address: string,
  out: string,
  options: PredictFileOptions = {},
): Promise<PredictReport> {
  const { disk = realDisk, onProgress, signal, column = usualColumn(model.job) } = options;
  const path = shownPath(address);
  if (isTable(model.job.data)) {
    const { predictTable } = await import("./predict-table.ts");
    return predictTable(model, address, out, options);
  }
  const { bytes: size } = await factsOf(address);
  const scorer = new LineScorer(model, path, column);
  const bytes = await writeWhole(disk, out, async (file) => {
    let at = 0;
    for await (const { firstLine, lines, bytesRead } of readLines(address)) {
      const text = Buffer.from(await scorer.score(firstLine, lines), "latin1");
      file.write(text, at);
      at += text.length;
      onProgress?.(bytesRead, size);
      signal?.throwIfAborted();
    }
  });
  return { ...scorer.report(), file: out, bytes };
}

/** Scores lines, chunk after chunk, and counts what they come to. */
class LineScorer {
  readonly #model: Model;
  readonly #path: string;
  readonly #column: string;
  readonly #transforms: CompiledTransforms | undefined;
  #columns: Columns | undefined;
  #samples = 0;
  #bad = 0;
  #firstBad: PredictReport["firstBad"];
  #sum = 0;

  constructor(model: Model, path: string, column: string) {
    this.#model = model;
    this.#path = path;
    this.#column = column;
    this.#transforms = lineTransforms(model.job.data);
  }

  report(): Pick<PredictReport, "samples" | "bad" | "firstBad" | "mean"> {
    const mean = this.#samples === 0 ? Number.NaN : this.#sum / this.#samples;
    return { samples: this.#samples, bad: this.#bad, firstBad: this.#firstBad, mean };
  }

  /** The lines with their probabilities, each with its line break. Blank lines are left out. */
  async score(firstLine: number, lines: readonly (string | undefined)[]): Promise<string> {
    const left = lines.flatMap((text, i): NumberedLine[] => {
      const line = firstLine + i;
      if (text === undefined) throw this.#tooLong(line);
      return text === "" ? [] : [{ line, text }];
    });
    let out = "";
    if (this.#columns === undefined && left[0] !== undefined) {
      const { data } = this.#model.job;
      const [{ text }] = left;
      this.#columns = columnsOf(this.#model.job, text, this.#path, this.#column);
      if (data.kind === "csv") {
        const names = addedColumns(this.#model.tasks, this.#column).join(data.delimiter);
        out = `${text}${data.delimiter}${Buffer.from(names).toString("latin1")}\n`;
        left.shift();
      }
    }
    for (let from = 0; from < left.length; from += batchSamplesMax) {
      out += await this.#scoreSome(left.slice(from, from + batchSamplesMax));
    }
    return out;
  }

  async #scoreSome(lines: readonly NumberedLine[]): Promise<string> {
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
    const probabilities = await this.#model.predictBatch(rows.batch());
    const { length: tasks } = this.#model.tasks;
    const added = addedColumns(this.#model.tasks, this.#column);
    return lines
      .map(({ line, text }, i) => {
        const own = probabilities.subarray(i * tasks, (i + 1) * tasks);
        const shown = this.#shown(line, faults[i], own);
        if (columns.json !== undefined) return `${withMembers(text, added, shown)}\n`;
        return `${text}${columns.delimiter}${shown.join(columns.delimiter)}\n`;
      })
      .join("");
  }

  /**
   * The probabilities of a line as text, those of the first task counted: nine digits distinguish a
   * float32 from its neighbours.
   */
  #shown(line: number, fault: Fault | undefined, probabilities: Float32Array): string[] {
    if (fault === undefined) {
      this.#samples++;
      this.#sum += probabilities[0] ?? Number.NaN;
      return Array.from(probabilities, (one) => String(Number(one.toPrecision(9))));
    }
    this.#bad++;
    this.#firstBad ??= { line, reason: sentenceOf(fault) };
    return Array.from(probabilities, () => "");
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
