// Measures the heap of one thread: bytes that it allocates, and pauses of its garbage collector.
// Every thread has a heap of its own, so the meter runs on the thread of the work.

import { GCProfiler, getHeapStatistics } from "node:v8";

export interface HeapReport {
  /** Bytes of JavaScript objects that were allocated, collected since or not. */
  readonly heapBytes: number;
  /** Bytes outside the heap that its objects hold: array buffers. */
  readonly externalBytes: number;
  /** Duration of every collection, in milliseconds. */
  readonly pausesMs: readonly number[];
}

export interface HeapMeter {
  /** Call it after every step: external memory that is freed before the call is not counted. */
  look(): void;
  stop(): HeapReport;
}

/** Starts metering this thread. The meter's own calls count too: about a kilobyte each. */
export function startHeapMeter(): HeapMeter {
  const profiler = new GCProfiler();
  profiler.start();
  const begin = getHeapStatistics();
  let external = begin.external_memory;
  let externalBytes = 0;
  const look = () => {
    const now = getHeapStatistics().external_memory;
    externalBytes += Math.max(0, now - external);
    external = now;
  };
  return {
    look,
    stop() {
      look();
      let heapBytes = getHeapStatistics().used_heap_size - begin.used_heap_size;
      const { statistics } = profiler.stop();
      for (const { beforeGC, afterGC } of statistics) {
        heapBytes += beforeGC.heapStatistics.usedHeapSize - afterGC.heapStatistics.usedHeapSize;
      }
      return { heapBytes, externalBytes, pausesMs: statistics.map(({ cost }) => cost / 1000) };
    },
  };
}
