// What kinds of data have in common, as far as code has to know: whether the job names their
// columns, and what people call one of their samples.

import type { ResolvedColumnOptions, ResolvedDataOptions } from "./options.ts";
import type { Transform } from "./transforms/transform-options.ts";

/** Whether the job names the columns of its data. */
export function namesColumns(data: ResolvedDataOptions): data is ResolvedColumnOptions {
  return data.kind === "csv" || data.kind === "jsonl" || data.kind === "parquet";
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
  return kind === "parquet" ? "rows" : "lines";
}

/** Where a sample lies, for a message. `line` counts from 1 in its file. */
export function placeOf(place: {
  readonly file: string;
  readonly line: number;
  readonly rowGroup?: number | undefined;
}): string {
  const { file, line, rowGroup } = place;
  return rowGroup === undefined
    ? `${file}, line ${line}`
    : `${file}, row group ${rowGroup}, row ${line}`;
}
