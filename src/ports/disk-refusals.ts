// Classifies errors of the disk: permanent refusals, a full disk, and errors that may be transient.

/** The code of a file system error, such as `EACCES`; undefined for any other error. */
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
 * The reason why the disk permanently refuses to create a directory or a file; undefined if a retry
 * may succeed, as on a disk that is full or fails.
 */
export function lastingRefusal(error: unknown): string | undefined {
  const code = diskCode(error);
  return code === undefined ? undefined : reasons.get(code);
}

/** The disk is full, the user's quota is exceeded, or the file has the largest allowed size. */
const fullCodes = new Set(["ENOSPC", "EDQUOT", "EFBIG"]);

/** Whether the code of a disk's error means that there is no room, which an operator can make. */
export function isFullCode(code: string | undefined): boolean {
  return code !== undefined && fullCodes.has(code);
}

/** Whether an error means that the disk has no room. */
export function isFull(error: unknown): boolean {
  return isFullCode(diskCode(error));
}
