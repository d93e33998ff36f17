// Properties of the kinds of data: whether a kind has named columns or pieces, and what messages
// call its samples.

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

/** Kinds of columnar files, which consist of pieces: row groups or record batches. */
export type TableKind = ResolvedTableOptions["kind"];

/** Whether the data are columnar files. */
export function isTable<Kind extends { readonly kind?: unknown }>(
  data: Kind,
): data is Extract<Kind, { kind: TableKind }> {
  return data.kind === "arrow" || data.kind === "parquet";
}

/** Display name of a columnar format. */
export function formatOf({ kind }: { readonly kind: TableKind }): "Arrow" | "Parquet" {
  return kind === "arrow" ? "Arrow" : "Parquet";
}

/** Display name of a piece of a columnar file. */
export function pieceNameOf({ kind }: { readonly kind: TableKind }): "record batch" | "row group" {
  return kind === "arrow" ? "record batch" : "row group";
}

/** Position of a piece, from 0, in the property that records of bad rows use. */
export function pieceOf(
  { kind }: { readonly kind: TableKind },
  piece: number | undefined,
): { readonly rowGroup?: number | undefined; readonly recordBatch?: number | undefined } {
  return kind === "arrow" ? { recordBatch: piece } : { rowGroup: piece };
}

export function transformsOf(data: ResolvedDataOptions): readonly Transform[] | undefined {
  return namesColumns(data) ? data.transforms : undefined;
}

/** Whether samples are encoded on demand, without a cache. */
export function isStreamed(data: ResolvedDataOptions): boolean {
  return "streamed" in data && data.streamed === true;
}

/** Whether each file of the data has an index of its own. */
export function isIndexedByFile(data: ResolvedDataOptions): data is ResolvedTableOptions {
  return isTable(data) && isStreamed(data);
}

/** What messages call the records of a file: lines of text, rows of columnar files. */
export function linesOf({ kind }: Pick<ResolvedDataOptions, "kind">): "lines" | "rows" {
  return isTable({ kind }) ? "rows" : "lines";
}

/** Position of a sample, for messages. `line` counts from 1 in its file. */
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

/** The format of a file by its extension, without the extension of a compression. */
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
