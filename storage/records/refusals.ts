// A refusal of the disk, as the error that says what to do about it.

import { TierDiskFullError, TierReadError, TierWriteError } from "../../src/errors/errors.ts";

/** No room: on the disk, in a quota, or in the largest file that may be. */
const fullCodes = new Set(["ENOSPC", "EDQUOT", "EFBIG"]);

/** The error of a call that failed with the system's `code`. */
export function refusal(
  action: "read" | "write",
  what: string,
  path: string,
  code: string,
  options?: ErrorOptions,
): TierDiskFullError | TierReadError | TierWriteError {
  if (fullCodes.has(code)) return new TierDiskFullError(what, path, code, options);
  const Refusal = action === "read" ? TierReadError : TierWriteError;
  return new Refusal(what, path, code, options);
}
