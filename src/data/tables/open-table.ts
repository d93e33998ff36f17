// Opens a file of columns by the kind of the job's data. The reader of a format is loaded with its
// packages when it is first needed.

import type { ResolvedTableOptions, TableShape } from "../options.ts";
import type { KeyColumn } from "../split-keys.ts";
import type { TableFile } from "./table-file.ts";

/**
 * Opens a file for a job; the caller closes it. `kept`: the file is predicted; labels, weight and
 * group may be missing, and are not read, and these columns are read beside the features.
 * @throws InvalidOptionError where the file lacks a column, or has another kind of it
 * @throws InputUnusableError where it cannot be read
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
