// Predicts every row of files: the lines of text files, or the rows of columnar files. Rows are
// decoded as in training; one batch of rows is in memory at a time.
//
//   line-input.ts ──┐                            ┌──▶ the input's lines, predictions appended
//                   ├──▶ rows ──▶ sample-scorer ─┤
//   table-input.ts ─┘                            └──▶ numbered rows: CSV, JSON, Parquet, Arrow

import { statSync } from "node:fs";
import {
  type Calibrations,
  factsOfAll,
  filesNamed,
  InputUnusableError,
  InvalidOptionError,
  isTable,
  type JobSpec,
  type Model,
  type ProgressOptions,
  realDisk,
  writeWhole,
} from "../../../internal.ts";
import { dataOf } from "./input-data.ts";
import { lineInput } from "./line-input.ts";
import {
  defaultColumn,
  predictedColumns,
  SampleScorer,
  type SamplesReport,
} from "./sample-scorer.ts";
import { type OutputFormat, openOutput, outputFormatOf } from "./write-predictions.ts";

export interface PredictFileOptions extends ProgressOptions {
  /**
   * Name of the prediction column. @default "probability", or "prediction" if all labels are
   * numeric
   */
  readonly column?: string | undefined;
  /**
   * Columns of the file to copy beside the predictions, whether the model reads them or not.
   * Refused where the output copies whole lines anyway.
   */
  readonly keep?: readonly string[] | undefined;
  /**
   * One calibration per task (`Model.calibrate`); calibrated probabilities are written in columns
   * beside the raw ones. @default the model's own calibrations, if it has them (`loadModel`)
   */
  readonly calibrations?: Calibrations | undefined;
}

/** The result of `predictFile`. */
export interface PredictReport extends SamplesReport {
  readonly file: string;
  /** Bytes of the file. */
  readonly bytes: number;
}

/**
 * Writes the lines of `data` to `out`, each followed by the probability of the label 1, or the
 * value of a numeric label. `data`: paths of files on a disk or a server, directories, and
 * patterns, as in a job's `data.paths`; files are read in that order, and CSV files share one
 * header. If the ending of `out` is another format (`.csv`, `.jsonl`, `.parquet` or `.arrow`), or
 * the files are columnar, each row's number over all files, the columns of `keep` and the
 * predictions are written instead. A further ending `.gz` or `.zst` compresses a text file. The
 * files have the columns of the model's training data, with or without the label, in any format
 * (input-data.ts); a row that training would reject gets no prediction.
 * @throws InvalidOptionError where a column is missing or of another kind, or `column` is in a file
 * @throws InputUnusableError where a file cannot be read, or `out` is one of them or cannot be
 * written
 */
export async function predictFile(
  model: Model,
  data: string | readonly string[],
  out: string,
  options: PredictFileOptions = {},
): Promise<PredictReport> {
  const { disk = realDisk, onProgress, signal, column, keep = [] } = options;
  const { job, tasks } = model;
  const files = await filesNamed(job.data, typeof data === "string" ? [data] : data);
  refuseToReplace(files, out);
  const section = dataOf(job.data, files);
  const { format: named, packed } = outputFormatOf(out);
  const format = formatFor(section, named);
  const isCopied = format === "lines";
  if (isCopied && options.keep !== undefined) throw keepWithLines(out);
  const calibrations = options.calibrations ?? model.calibrations;
  const names = predictedColumns(tasks, column ?? defaultColumn(job), calibrations);
  const input = isTable(section)
    ? (await import("./table-input.ts")).tableInput(job, section, keep)
    : lineInput(job, section, { keep, isCopied, added: names });
  const facts = await factsOfAll(files);
  const size = facts.reduce((sum, { bytes }) => sum + bytes, 0);
  const scorer = new SampleScorer(model, calibrations);
  const bytes = await writeWhole(disk, out, async (target) => {
    const output = await openOutput(target, { format, packed }, { kept: keep, names });
    let bytesBefore = 0;
    for (const [i, file] of files.entries()) {
      const fileBytes = facts[i]?.bytes ?? 0;
      for await (const rows of input.read(file, fileBytes)) {
        await output.write(rows, await scorer.score(rows));
        onProgress?.(bytesBefore + rows.bytesRead, size);
        signal?.throwIfAborted();
      }
      bytesBefore += fileBytes;
    }
    await output.finish();
  });
  return { ...scorer.report(), file: out, bytes };
}

/** @throws InputUnusableError where `out` is one of the files: its columns would be lost. */
export function refuseToReplace(files: readonly string[], out: string): void {
  const idOf = (path: string) => {
    const found = statSync(path, { bigint: true, throwIfNoEntry: false });
    return found === undefined ? undefined : `${found.dev} ${found.ino}`;
  };
  const id = idOf(out);
  if (id === undefined || !files.some((file) => idOf(file) === id)) return;
  throw new InputUnusableError(out, `Cannot write ${out}: it is read; name another file`);
}

/** The output's format; `lines`: `out` has the input's format, or an ending of no known format. */
function formatFor(
  data: JobSpec["data"],
  format: OutputFormat | undefined,
): OutputFormat | "lines" {
  if (isTable(data)) return format ?? data.kind;
  const isOfInput = format === data.kind || (data.kind === "criteo-tsv" && format === "csv");
  return format === undefined || isOfInput ? "lines" : format;
}

function keepWithLines(out: string): InvalidOptionError {
  const message = "Expected `keep` with a file of another format than the lines that are read";
  return new InvalidOptionError("keep", `${message}: ${out} has all columns of its lines`);
}
