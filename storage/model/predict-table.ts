// Predicts every row of a file of columns, and writes a file, of the format that its name says or
// of the same, with the same rows in the same order: the number of the row, from 0, kept columns,
// and its probability. Rows are decoded as in
// training; some thousand are in memory at a time.

import { BatchRows } from "../../src/data/batch-rows.ts";
import type { RowBatch } from "../../src/data/columnar/column.ts";
import { createRowEncoder, type RowEncoder } from "../../src/data/columnar/row-encoder.ts";
import { textsAt } from "../../src/data/columnar/row-text.ts";
import type { ResolvedTableOptions } from "../../src/data/options.ts";
import { Sample } from "../../src/data/sample.ts";
import { openTable } from "../../src/data/tables/open-table.ts";
import { wantedRows } from "../../src/data/tables/wanted-rows.ts";
import { denseOf, wideOf } from "../../src/data/text/columns.ts";
import { sentenceOf } from "../../src/data/text/faults.ts";
import { lineTransforms } from "../../src/data/text/made-lines.ts";
import { weightedOf } from "../../src/data/text/match-features.ts";
import { InvalidOptionError } from "../../src/errors/errors.ts";
import { shapesOf } from "../../src/model/features.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { batchSamplesMax } from "../../src/serving/scorer.ts";
import { writeWhole } from "../disk/whole-file.ts";
import type { Model } from "./model.ts";
import {
  noNumberBecause,
  type PredictFileOptions,
  type PredictReport,
  predictedColumns,
  predictedValues,
  usualColumn,
} from "./predict-report.ts";
import { openOutput, outputFormatOf } from "./prediction-output.ts";

/**
 * Writes the probabilities of the rows of `path` to `out`; a row that training would have left out
 * has none. The file has the feature columns of the training data, and may have no label.
 * @throws InvalidOptionError where a column is missing or of another kind
 * @throws InputUnusableError where `path` cannot be read or `out` cannot be written
 */
export async function predictTable(
  model: Model,
  path: string,
  out: string,
  given: PredictFileOptions,
): Promise<PredictReport> {
  const options = { ...given, calibrations: given.calibrations ?? model.calibrations };
  const { disk = realDisk, onProgress, signal, column = usualColumn(model.job) } = options;
  const data = model.job.data as ResolvedTableOptions;
  const opened = await openTable(path, data, shapesOf(model.job.model), undefined, true);
  const { columns, header } = opened;
  const { keep = [] } = options;
  const { format = data.kind, packed } = outputFormatOf(out);
  const names = predictedColumns(model.tasks, column, options);
  try {
    const scorer = new RowScorer(
      model,
      createRowEncoder(columns, header, undefined, lineTransforms(data)),
      options,
    );
    const bytes = await writeWhole(disk, out, async (target) => {
      const writer = await openOutput(target, { format, packed }, { kept: keep, names });
      for await (const { batch } of wantedRows(opened)) {
        const rows = Array.from({ length: batch.rows }, (_, i) => batch.firstRow + i);
        const kept = keep.map((name) => keptTexts(batch, name));
        await writer.write(rows, kept, await scorer.score(batch, names.length));
        onProgress?.(batch.firstRow + batch.rows, opened.rows);
        signal?.throwIfAborted();
      }
      await writer.finish();
    });
    return { ...scorer.report(), file: out, bytes };
  } finally {
    await opened.close();
  }
}

/**
 * The texts of a column: of a list, those of its ids between bars; null: there is no value.
 * @throws InvalidOptionError where the model does not read the column
 */
function keptTexts({ columns, rows, file }: RowBatch, name: string): (string | null)[] {
  const column = columns.get(name);
  if (column === undefined) {
    const read = [...columns.keys()].map((one) => `\`${one}\``).join(", ");
    const message = `Expected \`keep\` to name columns of ${file} that the model reads, ${read}`;
    throw new InvalidOptionError("keep", `${message}, got \`${name}\``);
  }
  return Array.from({ length: rows }, (_, row) => {
    const texts = textsAt(column, row);
    return texts.length === 0 ? null : Buffer.from(texts.join("|"), "latin1").toString("utf8");
  });
}

/** Scores rows, batch after batch, and counts what they come to. */
class RowScorer {
  readonly #model: Model;
  readonly #encoder: RowEncoder;
  readonly #sample: Sample;
  readonly #options: PredictFileOptions;
  #samples = 0;
  #bad = 0;
  #firstBad: PredictReport["firstBad"];
  #sum = 0;

  constructor(model: Model, encoder: RowEncoder, options: PredictFileOptions) {
    const { data, model: spec } = model.job;
    this.#options = options;
    this.#model = model;
    this.#encoder = encoder;
    this.#sample = new Sample({ dense: denseOf(data), features: shapesOf(spec).length });
  }

  report(): Pick<PredictReport, "samples" | "bad" | "firstBad" | "mean"> {
    const mean = this.#samples === 0 ? Number.NaN : this.#sum / this.#samples;
    return { samples: this.#samples, bad: this.#bad, firstBad: this.#firstBad, mean };
  }

  /** For each of `count` columns, the prediction of each row; null: the row is a bad one. */
  async score(batch: RowBatch, count: number): Promise<(number | null)[][]> {
    this.#encoder.begin(batch);
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
      const fault = this.#encoder.encodeFeatures(this.#sample, from + i);
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
        this.#firstBad ??= { line: batch.firstRow + from + i + 1, reason };
      } else {
        this.#samples++;
        this.#sum += values[0] ?? Number.NaN;
      }
    }
  }
}
