// What kinds of data have in common, as far as code has to know: whether the job names their
// columns, and what people call one of their samples.

import type {
  ResolvedColumnOptions,
  ResolvedDataOptions,
  ResolvedTableOptions,
} from "./options.ts";
import type { Transform } from "./transforms/transform-options.ts";

/** Whether the job names the columns of its data. */
export function namesColumns(data: ResolvedDataOptions): data is ResolvedColumnOptions {
  return data.kind === "csv" || data.kind === "jsonl" || isTable(data);
}

/** Kinds of files of columns, which have pieces: row groups, record batches. */
export type TableKind = ResolvedTableOptions["kind"];

/** Whether the data are files of columns. */
export function isTable<Kind extends { readonly kind?: unknown }>(
  data: Kind,
): data is Extract<Kind, { kind: TableKind }> {
  return data.kind === "arrow" || data.kind === "parquet";
}

/** What a format of columns is called. */
export function formatOf({ kind }: { readonly kind: TableKind }): "Arrow" | "Parquet" {
  return kind === "arrow" ? "Arrow" : "Parquet";
}

/** What a piece of a file of columns is called. */
export function pieceNameOf({ kind }: { readonly kind: TableKind }): "record batch" | "row group" {
  return kind === "arrow" ? "record batch" : "row group";
}

/** The place of a piece, as bad rows tell it; from 0. */
export function pieceOf(
  { kind }: { readonly kind: TableKind },
  piece: number | undefined,
): { readonly rowGroup?: number | undefined; readonly recordBatch?: number | undefined } {
  return kind === "arrow" ? { recordBatch: piece } : { rowGroup: piece };
}

/** The transforms of the data; undefined: they have none. */
export function transformsOf(data: ResolvedDataOptions): readonly Transform[] | undefined {
  return namesColumns(data) ? data.transforms : undefined;
}

/** Whether the samples are made whenever they are needed, without a cache. */
export function isStreamed(data: ResolvedDataOptions): boolean {
  return "streamed" in data && data.streamed === true;
}

/** What a sample is called where it lies: text has lines, tables have rows. */
export function linesOf({ kind }: Pick<ResolvedDataOptions, "kind">): "lines" | "rows" {
  return isTable({ kind }) ? "rows" : "lines";
}

/** Where a sample lies, for a message. `line` counts from 1 in its file. */
export function placeOf(place: {
  readonly file: string;
  readonly line: number;
  readonly rowGroup?: number | undefined;
  readonly recordBatch?: number | undefined;
}): string {
  const { file, line, rowGroup, recordBatch } = place;
  if (recordBatch !== undefined) return `${file}, record batch ${recordBatch}, row ${line}`;
  return rowGroup === undefined
    ? `${file}, line ${line}`
    : `${file}, row group ${rowGroup}, row ${line}`;
}

/** The format of a file by the ending of its name, without what packs it. */
export const formatsByEnding = {
  csv: "csv",
  tsv: "tsv",
  jsonl: "jsonl",
  ndjson: "jsonl",
  parquet: "parquet",
  arrow: "arrow",
  arrows: "arrow",
  feather: "arrow",
} as const;
