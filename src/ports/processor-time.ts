// The processor time of a thread. Unlike wall-clock time it does not grow while other programs use
// the cores, so that costs can be measured while they run.

import { existsSync, readFileSync } from "node:fs";

/** The source of processor time, which only Linux has. */
const path = "/proc/thread-self/schedstat";

const asleep = new Int32Array(new SharedArrayBuffer(4));

/** Whether this system reports processor time. */
export function hasProcessorTime(): boolean {
  return existsSync(path);
}

/**
 * The processor time of the calling thread so far, in milliseconds. The thread first sleeps for 1
 * ms, as Linux updates the number when a thread leaves its processor.
 * @throws Error where the system does not report it (`hasProcessorTime`)
 */
export function processorMs(): number {
  Atomics.wait(asleep, 0, 0, 1);
  const [nanoseconds] = readFileSync(path, "utf8").split(" ");
  return Number(nanoseconds) / 1e6;
}
