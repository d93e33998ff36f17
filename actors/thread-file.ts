// The file that a thread starts with: thread-entry.js, or the bundle of it and of all that it loads
// (rollup.config.js), which starts in less than half of the time.

import { statSync } from "node:fs";

/** What the launcher starts for every thread of a generation, and for what prepares one. */
export const threadFile = threadFileIn(new URL("..", import.meta.url));

/**
 * The file in a directory of compiled modules. A bundle that is older than what was compiled last
 * is not what the sources say: it is left alone.
 */
export function threadFileIn(compiled: URL): URL {
  const bundle = new URL("threads/thread-entry.js", compiled);
  const bundledMs = changedMs(bundle);
  const compiledMs = changedMs(new URL(".tsbuildinfo", compiled)) ?? 0;
  const isCurrent = bundledMs !== undefined && bundledMs >= compiledMs;
  return isCurrent ? bundle : new URL("actors/thread-entry.js", compiled);
}

function changedMs(file: URL): number | undefined {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs;
}
