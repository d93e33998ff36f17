// Opens a columnar file by the kind of the job's data. The reader of a format and its packages are
// loaded on first use.

import type { ResolvedTableOptions, TableShape } from "../options.ts";
import type { KeyColumn } from "../split-keys.ts";
import type { TableFile } from "./table-file.ts";

/**
 * Opens a file for a job; the caller closes it. `kept` is set for a prediction: labels, weight and
 * group are not read and may be missing, and the columns `kept` are read beside the features.
 * @throws InvalidOptionError if the file lacks a column, or has it with another type
 * @throws InputUnusableError if it cannot be read
 */
export async function openTable(
  path: string,
  options: ResolvedTableOptions,
  tables: readonly TableShape[],
  key?: KeyColumn,
  kept?: readonly string[],
): Promise<TableFile> {
  switch (options.kind) {
    case "parquet": {
      const { openParquet } = await import("../parquet/open-columns.ts");
      return openParquet(path, options, tables, key, kept);
    }
    case "arrow": {
      const { openArrow } = await import("../arrow/open-arrow.ts");
      return openArrow(path, options, tables, key, kept);
    }
    default:
      return options satisfies never;
  }
}
