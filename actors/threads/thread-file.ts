// The file that a thread starts with: thread-entry.js, or the rollup of it and of all that it loads
// (rollup.config.js), which starts in half of the time.

import { statSync } from "node:fs";

/** The file that the launcher starts every thread with. */
export const threadFile = threadFileIn(new URL("../..", import.meta.url));

/**
 * The file in a directory of compiled modules. A rollup older than the compiled modules is stale,
 * and is left alone.
 */
export function threadFileIn(compiled: URL): URL {
  const rollup = new URL("threads/thread-entry.js", compiled);
  const rolledMs = changedMs(rollup);
  const compiledMs = changedMs(new URL(".tsbuildinfo", compiled)) ?? 0;
  const isCurrent = rolledMs !== undefined && rolledMs >= compiledMs;
  return isCurrent ? rollup : new URL("actors/threads/thread-entry.js", compiled);
}

function changedMs(file: URL): number | undefined {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs;
}
