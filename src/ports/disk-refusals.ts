// Refusals of a disk that do not pass by themselves, told apart from those that may: here and
// nowhere else.

/** The code of a disk's error, as `EACCES`; undefined for any other error. */
export function diskCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error) || !("syscall" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}

const reasons: ReadonlyMap<string, string> = new Map([
  ["EACCES", "this user may not write there"],
  ["EPERM", "the system does not permit it"],
  ["EROFS", "the file system is read-only"],
  ["EEXIST", "a file is in the place of a directory"],
  ["ENOTDIR", "a file is in the place of a directory"],
  ["EISDIR", "a directory is in the place of a file"],
  ["ENOENT", "the directory above it refuses new directories"],
  ["ENAMETOOLONG", "the name is too long"],
  ["ELOOP", "its links lead in a circle"],
]);

/**
 * Why the disk refuses, for good, to make a directory or to create a file; undefined where another
 * attempt may do better, as on a disk that is full or fails.
 */
export function lastingRefusal(error: unknown): string | undefined {
  const code = diskCode(error);
  return code === undefined ? undefined : reasons.get(code);
}

/** No room: on the disk, in this user's share of it, or in a file of the largest size allowed. */
const fullCodes = new Set(["ENOSPC", "EDQUOT", "EFBIG"]);

/** Whether the code of a disk's error says that there is no room, which somebody may make. */
export function isFullCode(code: string | undefined): boolean {
  return code !== undefined && fullCodes.has(code);
}

/** Whether the disk refused for want of room. */
export function isFull(error: unknown): boolean {
  return isFullCode(diskCode(error));
}
