// How long a thread has had a processor. Unlike time on the wall it does not grow while other
// programs have the cores, so that costs can be measured beside them.

import { existsSync, readFileSync } from "node:fs";

/** Linux alone tells it. */
const path = "/proc/thread-self/schedstat";

const asleep = new Int32Array(new SharedArrayBuffer(4));

/** Whether this system tells. */
export function hasProcessorTime(): boolean {
  return existsSync(path);
}

/**
 * Milliseconds for which the calling thread has had a processor so far. The thread sleeps for one
 * before: Linux brings the number up to date when a thread leaves its processor.
 * @throws Error where the system does not tell (`hasProcessorTime`)
 */
export function processorMs(): number {
  Atomics.wait(asleep, 0, 0, 1);
  const [nanoseconds] = readFileSync(path, "utf8").split(" ");
  return Number(nanoseconds) / 1e6;
}
