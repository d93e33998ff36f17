// Builders of a job's data section: Criteo logs, CSV, Parquet, Arrow and JSON Lines files,
// generated samples. Each function only fills in options (options.ts), which are checked with the
// job.

import type {
  ArrowOptions,
  CriteoTsvOptions,
  CsvOptions,
  JsonLinesOptions,
  ParquetOptions,
  SyntheticOptions,
} from "./options.ts";
import { criteoFeatures } from "./text/columns.ts";

/** The Criteo display-advertising logs: label, 13 integers, 26 categoricals, separated by tabs. */
export const criteo = {
  /** Criteo text files, without header. Fields may be empty. */
  tsv(
    paths: string | readonly string[],
    options: Omit<CriteoTsvOptions, "kind" | "paths">,
  ): CriteoTsvOptions {
    return { kind: "criteo-tsv", paths: listOf(paths), ...options };
  },

  /** The 26 tables `C1`..`C26`. Other fields are copied to each table. `rows` @default 10000 */
  tables<Rest extends object>(
    options: Rest & { readonly dim: number; readonly rows?: number },
  ): (Rest & { name: string; rows: number; dim: number })[] {
    const { rows = 10_000 } = options;
    return Array.from({ length: criteoFeatures }, (_, index) => ({
      ...options,
      name: `C${index + 1}`,
      rows,
    }));
  },
};

/** Text files with a header that names the columns. */
export function csv(
  paths: string | readonly string[],
  options: Omit<CsvOptions, "kind" | "paths">,
): CsvOptions {
  return { kind: "csv", paths: listOf(paths), ...options };
}

/** Parquet files, with columns named as for CSV. */
export function parquet(
  paths: string | readonly string[],
  options: Omit<ParquetOptions, "kind" | "paths">,
): ParquetOptions {
  return { kind: "parquet", paths: listOf(paths), ...options };
}

/** Arrow files and streams, with columns named as for CSV. */
export function arrow(
  paths: string | readonly string[],
  options: Omit<ArrowOptions, "kind" | "paths">,
): ArrowOptions {
  return { kind: "arrow", paths: listOf(paths), ...options };
}

/** JSON Lines: one object per line, with keys as the columns of a CSV file. */
export function jsonl(
  paths: string | readonly string[],
  options: Omit<JsonLinesOptions, "kind" | "paths">,
): JsonLinesOptions {
  return { kind: "jsonl", paths: listOf(paths), ...options };
}

/** Generated samples with a planted truth: popular ids, and labels that a model can learn. */
export function synthetic(options: Omit<SyntheticOptions, "kind">): SyntheticOptions {
  return { kind: "synthetic", ...options };
}

function listOf(paths: string | readonly string[]): string[] {
  return Array.isArray(paths) ? [...paths] : [paths as string];
}
