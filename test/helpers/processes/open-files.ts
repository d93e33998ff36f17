// Finds files of a directory that this process has open, in Linux's /proc. Other test files run in
// the same process, and open and close files meanwhile.

import { readdirSync, readlinkSync } from "node:fs";

/** An open file: its descriptor, and its path, which ends in " (deleted)" if it has no name. */
export interface OpenFile {
  readonly descriptor: number;
  readonly path: string;
}

/** The open files below a directory, by descriptor; empty on systems other than Linux. */
export function openFilesIn(directory: string): OpenFile[] {
  if (process.platform !== "linux") return [];
  return readdirSync("/proc/self/fd").flatMap((name) => {
    try {
      const path = readlinkSync(`/proc/self/fd/${name}`);
      return path.startsWith(`${directory}/`) ? [{ descriptor: Number(name), path }] : [];
    } catch {
      return []; // It was closed since the directory was read.
    }
  });
}
