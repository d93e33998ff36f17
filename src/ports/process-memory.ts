// The memory that this process may use.

import { totalmem } from "node:os";

/** The memory of this process in bytes: the machine's, or the limit of its container. */
export function memoryOfProcess(): number {
  const limit = process.constrainedMemory();
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem();
}
