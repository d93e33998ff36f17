// Which format a file of rows has: its name says.

import { InputUnusableError } from "../../src/errors.ts";
import { csvTable } from "./csv.ts";
import { parquet } from "./parquet.ts";
import type { RowFormat } from "./row-file.ts";
import { safetensors } from "./safetensors.ts";

/** @throws InputUnusableError where the name ends otherwise */
export function formatOf(path: string): RowFormat {
  if (path.endsWith(".safetensors")) return safetensors;
  if (path.endsWith(".csv")) return csvTable;
  if (path.endsWith(".parquet")) return parquet;
  const forms = "`.safetensors`, `.csv` or `.parquet`";
  throw new InputUnusableError(path, `Expected a file ending in ${forms}, got ${path}`);
}
