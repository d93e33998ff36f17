// Chooses the format of a file of rows by its name. Parquet is loaded only when needed, as its
// libraries are many modules.

import { InputUnusableError } from "../../../internal.ts";
import { csvTable } from "./csv.ts";
import type { RowFormat } from "./row-file.ts";
import { safetensors } from "./safetensors.ts";

/** The format for a file's ending. @throws InputUnusableError where the ending is unknown */
export async function formatOf(path: string): Promise<RowFormat> {
  if (path.endsWith(".safetensors")) return safetensors;
  if (path.endsWith(".csv")) return csvTable;
  if (path.endsWith(".parquet")) return (await import("./parquet.ts")).parquet;
  const forms = "`.safetensors`, `.csv` or `.parquet`";
  throw new InputUnusableError(path, `Expected a file ending in ${forms}, got ${path}`);
}
