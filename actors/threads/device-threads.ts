// The threads of a device: how many threads its kernels may use, on this machine. They change no
// bit, so they belong to the process that computes and not to the job.

import { availableParallelism } from "node:os";
import { z } from "zod";
import type { Launcher, Thread } from "../../src/ports/launcher.ts";
import type { ThreadTask } from "./thread-program.ts";

/** Most threads of a device: native/threads/threads.h has the same number. */
const threadsMax = 256;

/** The option of a process with devices. */
export const deviceThreads = z.union([z.literal("auto"), z.int().min(1).max(threadsMax)]);

/** Starts threads by `inner`; the kernels of each device among them may use `threads` threads. */
export function withDeviceThreads(
  inner: Launcher,
  threads: z.output<typeof deviceThreads>,
  devices: number,
): Launcher {
  const each = threads === "auto" ? sharedCores(devices) : threads;
  return {
    start<Command, Report>(entry: URL, data: unknown, name: string): Thread<Command, Report> {
      const task = data as ThreadTask;
      return inner.start(
        entry,
        task.program === "device" ? { ...task, threads: each } : task,
        name,
      );
    },
  };
}

/** The cores of this machine, shared by its devices. */
function sharedCores(devices: number): number {
  const cores = Math.floor(availableParallelism() / Math.max(1, devices));
  return Math.min(threadsMax, Math.max(1, cores));
}
