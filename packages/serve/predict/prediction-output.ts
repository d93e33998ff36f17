// Chooses the format and writer of a predictions file by the ending of its name, and rejects
// impossible combinations before any row is read.

import {
  type DiskFile,
  InvalidOptionError,
  type PackedEnding,
  packedEndingOf,
  packOf,
} from "../../../internal.ts";
import type { ProbabilityWriter, WrittenColumns } from "./predict-report.ts";

const formats = { csv: "csv", jsonl: "jsonl", ndjson: "jsonl", parquet: "parquet", arrow: "arrow" };

/** A format of predictions. */
export type OutputFormat = "csv" | "jsonl" | "parquet" | "arrow";

/** Format and compression by a name's ending; undefined: an unknown ending, no compression. */
export function outputFormatOf(path: string): {
  format: OutputFormat | undefined;
  packed: PackedEnding | undefined;
} {
  const packed = packedEndingOf(path);
  const ending =
    path
      .slice(0, path.length - (packed?.length ?? 0))
      .split(".")
      .at(-1) ?? "";
  const format = Object.hasOwn(formats, ending)
    ? (formats[ending as keyof typeof formats] as OutputFormat)
    : undefined;
  return { format, packed };
}

/** @throws InvalidOptionError where column names collide, or the format cannot be compressed */
export async function openOutput(
  target: DiskFile,
  { format, packed }: { readonly format: OutputFormat; readonly packed: PackedEnding | undefined },
  columns: WrittenColumns,
): Promise<ProbabilityWriter> {
  const all = ["row", ...columns.kept, ...columns.names];
  const twice = all.find((name, i) => all.indexOf(name) !== i);
  if (twice !== undefined) {
    const message = `Expected columns of different names in the result, got two of \`${twice}\``;
    throw new InvalidOptionError("column", `${message}: name another with \`column\``);
  }
  if (format === "csv" || format === "jsonl") {
    const { csvWriter, jsonWriter } = await import("./text-probabilities.ts");
    return (format === "csv" ? csvWriter : jsonWriter)(target, columns, await packOf(packed));
  }
  if (packed !== undefined) {
    const message = `Expected a file of columns without \`${packed}\`: it is read from its end, by columns`;
    throw new InvalidOptionError("out", message);
  }
  if (format === "parquet") {
    return (await import("./parquet-probabilities.ts")).parquetWriter(target, columns);
  }
  return (await import("./arrow-probabilities.ts")).arrowWriter(target, columns);
}
