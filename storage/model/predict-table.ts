// Predicts every row of a file of columns, and writes a file of the same format with the same rows
// in the same order: the number of the row, from 0, and its probability. Rows are decoded as in
// training; some thousand are in memory at a time.

import { BatchRows } from "../../src/data/batch-rows.ts";
import type { RowBatch } from "../../src/data/columnar/column.ts";
import { createRowEncoder, type RowEncoder } from "../../src/data/columnar/row-encoder.ts";
import type { ResolvedTableOptions } from "../../src/data/options.ts";
import { Sample } from "../../src/data/sample.ts";
import { openTable } from "../../src/data/tables/open-table.ts";
import { wantedRows } from "../../src/data/tables/wanted-rows.ts";
import { denseOf, wideOf } from "../../src/data/text/columns.ts";
import { sentenceOf } from "../../src/data/text/faults.ts";
import { lineTransforms } from "../../src/data/text/made-lines.ts";
import { weightedOf } from "../../src/data/text/match-features.ts";
import { shapesOf } from "../../src/model/features.ts";
import type { DiskFile } from "../../src/ports/disk.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { batchSamplesMax } from "../../src/serving/scorer.ts";
import { writeWhole } from "../disk/whole-file.ts";
import type { Model } from "./model.ts";
import {
  addedColumns,
  type PredictFileOptions,
  type PredictReport,
  type ProbabilityWriter,
  usualColumn,
} from "./predict-report.ts";

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
  options: PredictFileOptions,
): Promise<PredictReport> {
  const { disk = realDisk, onProgress, signal, column = usualColumn(model.job) } = options;
  const data = model.job.data as ResolvedTableOptions;
  const opened = await openTable(path, data, shapesOf(model.job.model), undefined, true);
  const { columns, header } = opened;
  try {
    const scorer = new RowScorer(
      model,
      createRowEncoder(columns, header, undefined, lineTransforms(data)),
    );
    const bytes = await writeWhole(disk, out, async (target) => {
      const writer = await writerOf(data, target, addedColumns(model.tasks, column));
      for await (const { batch } of wantedRows(opened)) {
        await writer.write(batch.firstRow, await scorer.score(batch));
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

async function writerOf(
  { kind }: ResolvedTableOptions,
  target: DiskFile,
  names: readonly string[],
): Promise<ProbabilityWriter> {
  switch (kind) {
    case "arrow":
      return (await import("./arrow-probabilities.ts")).arrowWriter(target, names);
    case "parquet":
      return (await import("./parquet-probabilities.ts")).parquetWriter(target, names);
    default:
      return kind satisfies never;
  }
}

/** Scores rows, batch after batch, and counts what they come to. */
class RowScorer {
  readonly #model: Model;
  readonly #encoder: RowEncoder;
  readonly #sample: Sample;
  #samples = 0;
  #bad = 0;
  #firstBad: PredictReport["firstBad"];
  #sum = 0;

  constructor(model: Model, encoder: RowEncoder) {
    const { data, model: spec } = model.job;
    this.#model = model;
    this.#encoder = encoder;
    this.#sample = new Sample({ dense: denseOf(data), features: shapesOf(spec).length });
  }

  report(): Pick<PredictReport, "samples" | "bad" | "firstBad" | "mean"> {
    const mean = this.#samples === 0 ? Number.NaN : this.#sum / this.#samples;
    return { samples: this.#samples, bad: this.#bad, firstBad: this.#firstBad, mean };
  }

  /** For each task, the probability of each row; null: the row is a bad one. */
  async score(batch: RowBatch): Promise<(number | null)[][]> {
    this.#encoder.begin(batch);
    const tasks: (number | null)[][] = this.#model.tasks.map(() => []);
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
    const isBad = Array.from({ length: count }, (_, i) => {
      const fault = this.#encoder.encodeFeatures(this.#sample, from + i);
      if (fault !== undefined) {
        this.#sample.clear(); // Empty bags in the bad row's place.
        this.#firstBad ??= { line: batch.firstRow + from + i + 1, reason: sentenceOf(fault) };
      }
      rows.add(i, this.#sample);
      return fault !== undefined;
    });
    const probabilities = await this.#model.predictBatch(rows.batch());
    for (const [i, bad] of isBad.entries()) {
      for (const [task, own] of tasks.entries()) {
        own.push(bad ? null : (probabilities[i * tasks.length + task] ?? Number.NaN));
      }
      if (bad) this.#bad++;
      else {
        this.#samples++;
        this.#sum += probabilities[i * tasks.length] ?? Number.NaN;
      }
    }
  }
}
