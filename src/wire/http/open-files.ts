// Limits a server's connections, so that the process has file descriptors left for files and
// threads. Otherwise the readers of all its runs fail with EMFILE.

import { existsSync, readFileSync } from "node:fs";

/** A soft limit of this process; Infinity if there is no limit, or it cannot be read. */
export function softLimit(name: "Max open files" | "Max locked memory"): number {
  const path = "/proc/self/limits";
  const text = existsSync(path) ? readFileSync(path, "utf8") : "";
  const line = text.split("\n").find((one) => one.startsWith(name)) ?? "";
  const value = Number(line.slice(name.length).trim().split(/\s+/)[0]);
  return Number.isFinite(value) && line !== "" ? value : Number.POSITIVE_INFINITY;
}

/** Number of connections that a server gets in any case. */
const connectionsMin = 4;

/**
 * `most` connections, or fewer if the process may open few files: a server gets at most a quarter
 * of them.
 */
export function connectionsWithin(most: number, files = softLimit("Max open files")): number {
  return Math.min(most, Math.max(connectionsMin, Math.floor(files / 4)));
}
