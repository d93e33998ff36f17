// Opens files of any supported format, chosen by their endings, as rows of stored values.

import {
  filesOf,
  formatsByEnding,
  InputUnusableError,
  s3FilesOf,
  shownPath,
  type TableKind,
  tableFilesOf,
} from "../../../internal.ts";
import { openParquetTable } from "./parquet-table.ts";
import { withPartitionKeys } from "./partition-keys.ts";
import type { RefusedColumns, TableSource } from "./table-columns.ts";
import { openTextTable, type TextKind } from "./text-table.ts";

const kinds = new Map<string, TextKind | TableKind>([
  ...Object.entries(formatsByEnding),
  ["txt", "csv"],
]);

/** Expands paths, which may be directories, patterns and addresses. @throws InputUnusableError */
export async function filesFor(paths: readonly string[]): Promise<string[]> {
  const named = await s3FilesOf(paths);
  return named.flatMap((path) => (isText(path) ? filesOf([path]) : tableFilesOf([path])));
}

/**
 * Opens files of one kind; rows come in the order of the files. Partition keys become columns.
 * @throws InputUnusableError where a file cannot be read, the kinds differ, or a column is refused;
 * with `refused`, such columns are left out, and their types are put there by name
 */
export async function openSource(
  files: readonly string[],
  signal?: AbortSignal,
  refused?: RefusedColumns,
): Promise<TableSource> {
  const found = files.map(kindOf);
  const [kind] = found;
  const other = files.find((_, i) => found[i] !== kind);
  if (other !== undefined) {
    throw new InputUnusableError(
      shownPath(other),
      `Expected files of one kind, got ${shownPath(files[0] ?? "")} and ${shownPath(other)}`,
    );
  }
  return withPartitionKeys(await opened(files, kind ?? "csv", signal, refused), files);
}

async function opened(
  files: readonly string[],
  kind: TextKind | TableKind,
  signal: AbortSignal | undefined,
  refused: RefusedColumns | undefined,
): Promise<TableSource> {
  switch (kind) {
    case "parquet":
      return openParquetTable(files, refused);
    case "arrow": {
      const { openArrowTable } = await import("./arrow-table.ts");
      return openArrowTable(files, refused);
    }
    default:
      return openTextTable(files, kind, () => signal?.throwIfAborted());
  }
}

function isText(path: string): boolean {
  return /\.(csv|txt|tsv|jsonl|ndjson)(\.gz|\.zst)?$/i.test(shownPath(path));
}

/** The kind of a file, by the ending of its name. @throws InputUnusableError */
export function kindOf(path: string): TextKind | TableKind {
  const [, ending = ""] = /\.(\w+?)(?:\.gz|\.zst)?$/i.exec(shownPath(path)) ?? [];
  const kind = kinds.get(ending.toLowerCase());
  if (kind !== undefined) return kind;
  const endings = [...kinds.keys()].map((one) => `.${one}`);
  const message = `Expected a file ending in ${endings.join(", ")}, perhaps with .gz or .zst, got ${shownPath(path)}`;
  throw new InputUnusableError(shownPath(path), message);
}
