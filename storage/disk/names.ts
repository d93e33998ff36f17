// Checks names that are read from files and become paths below a directory. The file may be
// untrusted: a name such as `../x` would let it read, write or remove a file outside the directory.

/** Whether a name is a plain file name: no separators, and neither `.` nor `..`. */
export function isFileName(name: string): boolean {
  return /^[^/\\\0]{1,255}$/.test(name) && name !== "." && name !== "..";
}

/** Whether a relative path stays below its directory: `2026-01-01/part-0.parquet`. */
export function isPathBelow(path: string): boolean {
  return path.split("/").every(isFileName);
}

/** The message of a schema for a name that `isFileName` rejects. */
export const noFileName = "expected the name of a file, and no path";
