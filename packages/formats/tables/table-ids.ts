// Lists the row of each id (text) that occurs in a table's columns. Hashes cannot be inverted, so
// the job's data is read again and every text is hashed as in training.

import {
  type CategoricalField,
  categoricalOf,
  columnTexts,
  decodeEntry,
  decodeText,
  factsOfAll,
  featuresOf,
  feeds,
  InputUnusableError,
  InvalidOptionError,
  type JobSpec,
  LocalRows,
  namesColumns,
  openCheckpoint,
  type ProgressOptions,
  planOf,
  type ResolvedFileOptions,
  realDisk,
  Sample,
  shapesOf,
  type TableShape,
  type TableSpec,
  transformsOf,
  writeWhole,
} from "../../../internal.ts";
import { appendTo, csvField } from "./csv.ts";
import type { FileNotes } from "./row-file.ts";

export interface TableIdsOptions extends ProgressOptions {
  /** Files to read instead of the job's. */
  readonly paths?: readonly string[] | undefined;
}

/** The result of `tableIds`. */
export interface TableIdsReport {
  readonly table: string;
  readonly column: string;
  readonly file: string;
  readonly lines: number;
  /** Number of distinct texts, and of their distinct rows, which texts may share. */
  readonly texts: number;
  readonly rows: number;
  /** Bytes of the file. */
  readonly bytes: number;
}

/** The job that trained a checkpoint. @throws CheckpointMissingError, CheckpointCorruptError */
export function jobOfCheckpoint(directory: string, manifest?: string): JobSpec {
  return openCheckpoint(directory, manifest).job;
}

/** Most distinct texts; a Map cannot hold many more. */
const textsMax = 16_000_000;

/**
 * Reads the data of a job, and writes for each text in a table's columns its row and its frequency:
 * a CSV file of `row,text,count`, ordered by row, then by descending count.
 * @throws InvalidOptionError (no such table, generated data), InputUnusableError (a file cannot be
 * read or written, or the column has too many texts)
 */
export async function tableIds(
  job: JobSpec,
  table: string,
  out: string,
  options: TableIdsOptions = {},
): Promise<TableIdsReport> {
  const { disk = realDisk } = options;
  const { data, features, spec, shapes } = sourceOf(job, table);
  const paths = options.paths ?? data.paths;
  const counts = new Map<string, number>();
  let lines = 0;
  let columns: readonly CategoricalField[] = [];
  const facts = await factsOfAll(paths);
  const total = facts.reduce((sum, { bytes }) => sum + bytes, 0);
  let before = 0;
  for (const [place, path] of paths.entries()) {
    const some = columnTexts(path, data, shapes, features);
    for await (const { columns: found, rows, texts, bytesRead } of some) {
      columns = found;
      lines += rows;
      for (const [column, text] of texts) countTexts(counts, text, column);
      if (counts.size > textsMax) throw tooMany(path, namesOf(columns));
      options.onProgress?.(before + bytesRead, total);
      options.signal?.throwIfAborted();
    }
    before += facts[place]?.bytes ?? 0;
  }
  const [first] = columns;
  if (first === undefined) throw new InputUnusableError(paths.join(), "There is no line to read");
  const rowed = rowsOf(counts, first, spec);
  const bytes = await writeWhole(disk, out, async (file) => {
    const write = appendTo(file);
    write("row,text,count\n");
    for (let first = 0; first < rowed.length; first += 4096) {
      const some = rowed.slice(first, first + 4096);
      write(some.map(({ row, text, count }) => `${row},${csvField(text)},${count}\n`).join(""));
    }
  });
  const rows = new Set(rowed.map(({ row }) => row)).size;
  return { table, column: namesOf(columns), file: out, lines, texts: rowed.length, rows, bytes };
}

/** Describes how ids of the data become rows, for the metadata of an exported file. */
export function rowNotes(job: JobSpec, spec: TableSpec): FileNotes {
  const { data, model } = job;
  if (data.kind === "synthetic") return { ids: "generated: an id is a row" };
  const seed = model.tables.findIndex(({ name }) => name === spec.name);
  const { column, ids, offset } = columnOf(data, featuresIn(model, seed));
  if (spec.dynamic !== undefined) return { column, ids: "dynamic: a row has its id" };
  if (ids === "integer") {
    const beyond = `beyond the rows: ${spec.ids}`;
    return { column, ids: "integer", row: `the number minus ${offset}; ${beyond}` };
  }
  const hash = `MurmurHash3_x86_32(UTF-8 bytes of the text, seed ${seed})`;
  return { column, ids: "hash", row: `1 + ${hash} mod ${spec.rows - 1}; 0: missing` };
}

function sourceOf({ data, model }: JobSpec, table: string) {
  const at = model.tables.findIndex(({ name }) => name === table);
  const spec = model.tables[at];
  if (spec === undefined) {
    const names = model.tables.map(({ name }) => `\`${name}\``).join(", ");
    throw new InvalidOptionError(
      "table",
      `Expected a table of the model, ${names}, got \`${table}\``,
    );
  }
  if (data.kind === "synthetic") {
    const message = `The data of table \`${table}\` is generated: its ids are rows, and have no text`;
    throw new InvalidOptionError("table", message);
  }
  const shapes = shapesOf(model);
  const made = madeColumn(data, featuresIn(model, at));
  if (made !== undefined) {
    const message =
      `Column \`${made}\` of table \`${table}\` is made by a transform, and has no text in the ` +
      "files: name a table of a column of the files";
    throw new InvalidOptionError("table", message);
  }
  const features = featuresIn(model, at).map((shape) => {
    return shapes.findIndex(({ name }) => name === shape.name);
  });
  return { data, features, spec, shapes };
}

/** The features that use a table. */
function featuresIn(model: JobSpec["model"], table: number): TableShape[] {
  const shapes = shapesOf(model);
  return featuresOf(model).flatMap((feature, i) => {
    const shape = shapes[i];
    return feature.table === table && shape !== undefined ? shape : [];
  });
}

/** A column of these features that is the output of a transform; undefined: none. */
function madeColumn(data: ResolvedFileOptions, shapes: readonly TableShape[]): string | undefined {
  if (!namesColumns(data)) return undefined;
  const { outputs } = planOf(transformsOf(data) ?? []);
  const columns = categoricalOf(data);
  const feeding = shapes.flatMap((shape) => columns.filter((one) => feeds(one, shape)));
  return feeding.find(({ column }) => outputs.has(column))?.column;
}

/** Names of the columns of a table's features, and how their ids are read. */
function columnOf(data: ResolvedFileOptions, shapes: readonly TableShape[]) {
  const column = shapes.map((shape) => shape.column ?? shape.name).join(", ");
  if (!namesColumns(data)) return { column, ids: "hash" as const, offset: 0 };
  const found = categoricalOf(data).filter((one) => shapes.some((shape) => feeds(one, shape)));
  const [{ ids, offset } = { ids: "hash" as const, offset: 0 }] = found;
  return { column: found.map((one) => one.column).join(", "), ids, offset };
}

function namesOf(columns: readonly CategoricalField[]): string {
  return columns.map(({ name }) => name).join(", ");
}

/** Counts the texts of a field, which has none if the value is missing. */
function countTexts(counts: Map<string, number>, field: string, column: CategoricalField): void {
  const { separator, weightSeparator } = column;
  for (const part of separator === undefined ? [field] : field.split(separator)) {
    const end = weightSeparator === undefined ? part.length : part.lastIndexOf(weightSeparator);
    const text = part.slice(0, end);
    if (text !== "") counts.set(text, (counts.get(text) ?? 0) + 1);
  }
}

interface TextRow {
  readonly row: number | bigint;
  readonly text: string;
  readonly count: number;
}

/** The row of each text; texts that training rejects are left out. */
function rowsOf(
  counts: ReadonlyMap<string, number>,
  column: CategoricalField,
  spec: TableSpec,
): TextRow[] {
  const sample = new Sample({ dense: 0, features: 1 });
  const found: TextRow[] = [];
  for (const [bytes, count] of counts) {
    sample.clear();
    const unweighted = { ...column, weightSeparator: undefined };
    if (decodeEntry(sample, 0, bytes, unweighted) !== undefined) continue;
    found.push({ row: rowOf(sample, spec), text: decodeText(bytes), count });
  }
  const order = (a: TextRow, b: TextRow) =>
    a.row === b.row ? b.count - a.count || (a.text < b.text ? -1 : 1) : a.row < b.row ? -1 : 1;
  return found.sort(order);
}

/** The row that training gives the only id of a sample; for a dynamic table, the id itself. */
function rowOf({ ids, highs }: Sample, spec: TableSpec): number | bigint {
  const [low = 0, high = 0] = [ids[0], highs[0]];
  if (spec.dynamic !== undefined) return (BigInt(high) << 32n) | BigInt(low >>> 0);
  const local = {
    samples: 1,
    lengths: Int32Array.of(1),
    ids: Int32Array.of(low),
    highs: Int32Array.of(high),
  };
  return new LocalRows().take(local, [spec], 0).rows[0] ?? 0;
}

function tooMany(path: string, column: string): InputUnusableError {
  const most = textsMax.toLocaleString("en-US");
  const message =
    `Expected at most ${most} different texts in column \`${column}\`: read fewer files ` +
    "(`--data`), or hash the texts that you need (packages/formats/docs/tables.md has the formula)";
  return new InputUnusableError(path, message);
}
