// Maps a failure of the disk to a tier error with advice for the user.

import { TierDiskFullError, TierReadError, TierWriteError } from "../../../src/errors/errors.ts";
import { isFullCode } from "../../../src/ports/disk-refusals.ts";

/** The error of a call that failed with the system's `code`. */
export function refusal(
  action: "read" | "write",
  what: string,
  path: string,
  code: string,
  options?: ErrorOptions,
): TierDiskFullError | TierReadError | TierWriteError {
  if (isFullCode(code)) return new TierDiskFullError(what, path, code, options);
  const Refusal = action === "read" ? TierReadError : TierWriteError;
  return new Refusal(what, path, code, options);
}
