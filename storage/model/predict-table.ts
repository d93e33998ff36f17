// Predicts every row of files of columns, and writes a file, of the format that its name says or
// of the same, with the same rows in the same order: the number of the row, from 0, kept columns,
// and its probability. Rows are decoded as in training; some thousand are in memory at a time.

import { BatchRows } from "../../src/data/batch-rows.ts";
import type { RowBatch } from "../../src/data/columnar/column.ts";
import { createRowEncoder, type RowEncoder } from "../../src/data/columnar/row-encoder.ts";
import { textsAt } from "../../src/data/columnar/row-text.ts";
import type { ResolvedTableOptions } from "../../src/data/options.ts";
import { factsOfAll } from "../../src/data/remote/file-facts.ts";
import { Sample } from "../../src/data/sample.ts";
import { openTable } from "../../src/data/tables/open-table.ts";
import { wantedRows } from "../../src/data/tables/wanted-rows.ts";
import { denseOf, wideOf } from "../../src/data/text/columns.ts";
import { sentenceOf } from "../../src/data/text/faults.ts";
import { lineTransforms } from "../../src/data/text/made-lines.ts";
import { weightedOf } from "../../src/data/text/match-features.ts";
import { shapesOf } from "../../src/model/features.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { batchSamplesMax } from "../../src/serving/scorer.ts";
import { writeWhole } from "../disk/whole-file.ts";
import type { Model } from "./model.ts";
import {
  noNumberBecause,
  type PredictFileOptions,
  type PredictReport,
  type ProbabilityWriter,
  predictedColumns,
  predictedValues,
  TaskMeans,
  usualColumn,
} from "./predict-report.ts";
import { openOutput, outputFormatOf } from "./prediction-output.ts";

/**
 * Writes the probabilities of the rows of `files`, in order, to `out`; a row that training would
 * have left out has none. The files have the feature columns of the training data, and may have no
 * label.
 * @throws InvalidOptionError where a column is missing or of another kind
 * @throws InputUnusableError where a file cannot be read or `out` cannot be written
 */
export async function predictTables(
  model: Model,
  files: readonly string[],
  out: string,
  options: PredictFileOptions,
): Promise<PredictReport> {
  const { disk = realDisk, onProgress, column = usualColumn(model.job), keep = [] } = options;
  const { format = (model.job.data as ResolvedTableOptions).kind, packed } = outputFormatOf(out);
  const names = predictedColumns(model.tasks, column, options);
  const facts = await factsOfAll(files);
  const size = facts.reduce((sum, { bytes }) => sum + bytes, 0);
  const scorer = new RowScorer(model, options);
  const bytes = await writeWhole(disk, out, async (target) => {
    const writer = await openOutput(target, { format, packed }, { kept: keep, names });
    const place = { rows: 0, bytes: 0 };
    for (const [i, file] of files.entries()) {
      const own = facts[i]?.bytes ?? 0;
      const onShare = (share: number) => onProgress?.(place.bytes + share * own, size);
      place.rows += await predictRows(model, file, {
        scorer,
        writer,
        options,
        names,
        place,
        onShare,
      });
      place.bytes += own;
    }
    await writer.finish();
  });
  return { ...scorer.report(), file: out, bytes };
}

/** Writes the rows of a file, and returns their number. */
async function predictRows(
  model: Model,
  path: string,
  to: {
    readonly scorer: RowScorer;
    readonly writer: ProbabilityWriter;
    readonly options: PredictFileOptions;
    readonly names: readonly string[];
    /** Where the file begins among the rows of all. */
    readonly place: { readonly rows: number };
    readonly onShare: (share: number) => void;
  },
): Promise<number> {
  const { keep = [], signal } = to.options;
  const data = model.job.data as ResolvedTableOptions;
  const opened = await openTable(path, data, shapesOf(model.job.model), undefined, keep);
  const { columns, header } = opened;
  try {
    to.scorer.begin(
      opened.path,
      createRowEncoder(columns, header, undefined, lineTransforms(data)),
    );
    for await (const { batch } of wantedRows(opened)) {
      const first = to.place.rows + batch.firstRow;
      const rows = Array.from({ length: batch.rows }, (_, i) => first + i);
      const kept = keep.map((name) => keptTexts(batch, name));
      await to.writer.write(rows, kept, await to.scorer.score(batch, to.names.length));
      to.onShare((batch.firstRow + batch.rows) / opened.rows);
      signal?.throwIfAborted();
    }
    return opened.rows;
  } finally {
    await opened.close();
  }
}

/** A column as text: a list as its ids joined by bars; null where a row has no value. */
function keptTexts({ columns, rows }: RowBatch, name: string): (string | null)[] {
  const column = columns.get(name);
  return Array.from({ length: rows }, (_, row) => {
    const texts = column === undefined ? [] : textsAt(column, row);
    return texts.length === 0 ? null : Buffer.from(texts.join("|"), "latin1").toString("utf8");
  });
}

/** Scores rows, batch after batch, and counts what they come to. */
class RowScorer {
  readonly #model: Model;
  readonly #sample: Sample;
  readonly #options: PredictFileOptions;
  readonly #means: TaskMeans;
  /** The file that is scored. */
  #path = "";
  #encoder: RowEncoder | undefined;
  #bad = 0;
  #firstBad: PredictReport["firstBad"];

  constructor(model: Model, options: PredictFileOptions) {
    const { data, model: spec } = model.job;
    this.#options = options;
    this.#means = new TaskMeans(model.tasks);
    this.#model = model;
    this.#sample = new Sample({ dense: denseOf(data), features: shapesOf(spec).length });
  }

  /** Begins a file: `encoder` reads its rows, and its path stands in reports of bad rows. */
  begin(path: string, encoder: RowEncoder): void {
    this.#path = path;
    this.#encoder = encoder;
  }

  report(): Pick<PredictReport, "samples" | "bad" | "firstBad" | "means"> {
    return { ...this.#means.report(), bad: this.#bad, firstBad: this.#firstBad };
  }

  /** For each of `count` columns, the prediction of each row; null: the row is a bad one. */
  async score(batch: RowBatch, count: number): Promise<(number | null)[][]> {
    this.#encoder?.begin(batch);
    const tasks: (number | null)[][] = Array.from({ length: count }, () => []);
    for (let from = 0; from < batch.rows; from += batchSamplesMax) {
      await this.#scoreSome(batch, from, Math.min(batch.rows - from, batchSamplesMax), tasks);
    }
    return tasks;
  }

  async #scoreSome(
    batch: RowBatch,
    from: number,
    count: number,
    tasks: readonly (number | null)[][],
  ): Promise<void> {
    const { job, means } = this.#model;
    const tables = shapesOf(job.model);
    const shape = { dense: denseOf(job.data), wide: wideOf(tables), means };
    const rows = new BatchRows(count, { ...shape, weighted: weightedOf(job.data, tables) });
    const faults = Array.from({ length: count }, (_, i) => {
      const fault = this.#encoder?.encodeFeatures(this.#sample, from + i);
      if (fault !== undefined) this.#sample.clear(); // Empty bags in the bad row's place.
      rows.add(i, this.#sample);
      return fault;
    });
    const logits = await this.#model.logitsOf(rows.batch());
    const { length: own } = this.#model.tasks;
    for (const [i, fault] of faults.entries()) {
      const row = logits.subarray(i * own, (i + 1) * own);
      const values = predictedValues(row, this.#model.numeric, this.#options);
      const reason = fault === undefined ? noNumberBecause(values) : sentenceOf(fault);
      const isBad = reason !== undefined;
      for (const [place, to] of tasks.entries()) to.push(isBad ? null : (values[place] ?? null));
      if (isBad) {
        this.#bad++;
        this.#firstBad ??= { file: this.#path, line: batch.firstRow + from + i + 1, reason };
      } else {
        this.#means.add(values);
      }
    }
  }
}
