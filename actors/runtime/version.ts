// The version of this package, which must be equal on all hosts of a cluster.

import { existsSync, readFileSync } from "node:fs";

/**
 * Reads the version in the nearest package.json above this file. The distance varies: a thread's
 * rollup, which includes this file, lies in another folder.
 */
export function packageVersion(): string {
  let folder = new URL(".", import.meta.url);
  while (!existsSync(new URL("package.json", folder)) && folder.pathname !== "/") {
    folder = new URL("..", folder);
  }
  const text = readFileSync(new URL("package.json", folder), "utf8");
  return (JSON.parse(text) as { version: string }).version;
}
