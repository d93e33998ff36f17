// The file that a thread or a process starts with: the compiled module of an entry, or its rollup
// (rolldown.config.js), which starts in half the time.

import { existsSync, readFileSync, statSync } from "node:fs";
import { basename } from "node:path";

const compiledFolder = new URL("../..", import.meta.url);

/** The folders of rollups among the compiled modules. */
export type Rollups = "threads" | "processes";

/**
 * The file of an entry, given by its path among the compiled modules. A rollup older than the
 * compiled modules is stale, and is not used.
 */
export function entryFile(rollups: Rollups, entry: string, compiled = compiledFolder): URL {
  const rollup = new URL(`${rollups}/${basename(entry, ".js")}.cjs`, compiled);
  const rolledMs = changedMs(rollup);
  const compiledMs = changedMs(new URL(".tsbuildinfo", compiled)) ?? 0;
  const isCurrent = rolledMs !== undefined && rolledMs >= compiledMs;
  return isCurrent ? rollup : new URL(entry, compiled);
}

function changedMs(file: URL): number | undefined {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs;
}

export function packageVersion(): string {
  const text = readFileSync(packageFile("package.json"), "utf8");
  return (JSON.parse(text) as { version: string }).version;
}

/**
 * A file of the package, by its path from the nearest package.json above this file. The distance
 * varies: a thread's rollup, which includes this file, lies in another folder.
 */
export function packageFile(path: string): URL {
  let folder = new URL(".", import.meta.url);
  while (!existsSync(new URL("package.json", folder)) && folder.pathname !== "/") {
    folder = new URL("..", folder);
  }
  return new URL(path, folder);
}
