// Predicts every row of columnar files, and writes the row's number, from 0, kept columns and
// predictions in the same order. The format is that of the output's ending, or else that of the
// input. Rows are decoded as in training; some thousand are in memory at a time.

import {
  batchSamplesMax,
  createRowEncoder,
  factsOfAll,
  InvalidOptionError,
  type Model,
  openTable,
  type ResolvedTableOptions,
  type RowBatch,
  type RowEncoder,
  realDisk,
  shapesOf,
  textsAt,
  transformsFor,
  wantedRows,
  writeWhole,
} from "../../../internal.ts";
import { withLists } from "./predict-data.ts";
import {
  type PredictFileOptions,
  type PredictReport,
  type ProbabilityWriter,
  predictedColumns,
  usualColumn,
} from "./predict-report.ts";
import { openOutput, outputFormatOf } from "./prediction-output.ts";
import { SampleScorer } from "./sample-scorer.ts";

/**
 * Writes the predictions of the rows of `files`, in order, to `out`; a row that training would
 * reject gets none. The files have the feature columns of the training data, and may lack the
 * label.
 * @throws InvalidOptionError where a column is missing or of another kind
 * @throws InputUnusableError where a file cannot be read or `out` cannot be written
 */
export async function predictTables(
  model: Model,
  { data, files }: { readonly data: ResolvedTableOptions; readonly files: readonly string[] },
  out: string,
  options: PredictFileOptions,
): Promise<PredictReport> {
  const { disk = realDisk, onProgress, column = usualColumn(model.job), keep = [] } = options;
  const { format = data.kind, packed } = outputFormatOf(out);
  const names = predictedColumns(model.tasks, column, options);
  const facts = await factsOfAll(files);
  const size = facts.reduce((sum, { bytes }) => sum + bytes, 0);
  const scorer = new SampleScorer(model, options);
  const bytes = await writeWhole(disk, out, async (target) => {
    const writer = await openOutput(target, { format, packed }, { kept: keep, names });
    const place = { rows: 0, bytes: 0 };
    for (const [i, file] of files.entries()) {
      const own = facts[i]?.bytes ?? 0;
      const onShare = (share: number) => onProgress?.(place.bytes + share * own, size);
      place.rows += await predictRows(model, file, {
        data,
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

/** Predicts and writes the rows of one file. Returns their number. */
async function predictRows(
  model: Model,
  path: string,
  to: {
    readonly data: ResolvedTableOptions;
    readonly scorer: SampleScorer;
    readonly writer: ProbabilityWriter;
    readonly options: PredictFileOptions;
    readonly names: readonly string[];
    /** Number of rows of all files before this one. */
    readonly place: { readonly rows: number };
    readonly onShare: (share: number) => void;
  },
): Promise<number> {
  const { keep = [], signal } = to.options;
  const { opened, data } = await openRows(path, to.data, shapesOf(model.job.model), keep);
  const { columns, header } = opened;
  try {
    to.scorer.begin(opened.path);
    const encoder = createRowEncoder(columns, header, undefined, transformsFor(data));
    for await (const { batch } of wantedRows(opened)) {
      const first = to.place.rows + batch.firstRow;
      const rows = Array.from({ length: batch.rows }, (_, i) => first + i);
      const kept = keep.map((name) => keptTexts(batch, name));
      const scored = await scoreBatch(to.scorer, encoder, batch, to.names.length);
      await to.writer.write(rows, kept, scored);
      to.onShare((batch.firstRow + batch.rows) / opened.rows);
      signal?.throwIfAborted();
    }
    return opened.rows;
  } finally {
    await opened.close();
  }
}

/** Opens a file. Columns that options split by separators may be texts or lists: tries both. */
async function openRows(
  path: string,
  data: ResolvedTableOptions,
  tables: ReturnType<typeof shapesOf>,
  keep: readonly string[],
) {
  try {
    return { data, opened: await openTable(path, data, tables, undefined, keep) };
  } catch (cause) {
    if (!(cause instanceof InvalidOptionError)) throw cause;
    const listed = withLists(data);
    const opened = await openTable(path, listed, tables, undefined, keep).catch(() => {
      throw cause;
    });
    return { data: listed, opened };
  }
}

/** A column's values as text, ids of a list joined by `|`; null: a missing value. */
function keptTexts({ columns, rows }: RowBatch, name: string): (string | null)[] {
  const column = columns.get(name);
  return Array.from({ length: rows }, (_, row) => {
    const texts = column === undefined ? [] : textsAt(column, row);
    return texts.length === 0 ? null : Buffer.from(texts.join("|"), "latin1").toString("utf8");
  });
}

/** For each of `columns` columns, the prediction of each row; null: the row is bad. */
async function scoreBatch(
  scorer: SampleScorer,
  encoder: RowEncoder,
  batch: RowBatch,
  columns: number,
): Promise<(number | null)[][]> {
  encoder.begin(batch);
  const found: (number | null)[][] = Array.from({ length: columns }, () => []);
  for (let from = 0; from < batch.rows; from += batchSamplesMax) {
    const scored = await scorer.score({
      count: Math.min(batch.rows - from, batchSamplesMax),
      decode: (sample, i) => encoder.encodeFeatures(sample, from + i),
      lineOf: (i) => batch.firstRow + from + i + 1,
    });
    for (const [place, to] of found.entries()) {
      for (const values of scored) to.push(values?.[place] ?? null);
    }
  }
  return found;
}
