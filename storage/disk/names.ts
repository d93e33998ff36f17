// Names that files say, and that become paths below a directory. A file may come from anybody: a
// name that leads out of the directory would have another file read, written or removed.

/** Whether a name is that of one file in a directory, and no path. */
export function isFileName(name: string): boolean {
  return /^[^/\\\0]{1,255}$/.test(name) && name !== "." && name !== "..";
}

/** Whether a path leads to a file below a directory: `2026-01-01/part-0.parquet`. */
export function isPathBelow(path: string): boolean {
  return path.split("/").every(isFileName);
}

/** What is wrong with a name, for schemas. */
export const noFileName = "expected the name of a file, and no path";
