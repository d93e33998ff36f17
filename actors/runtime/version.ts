// The version of this package: hosts of one cluster have the same one.

import { existsSync, readFileSync } from "node:fs";

/**
 * What package.json says: the nearest one above this file, which lies in another folder where it is
 * a part of a thread's rollup.
 */
export function packageVersion(): string {
  let folder = new URL(".", import.meta.url);
  while (!existsSync(new URL("package.json", folder)) && folder.pathname !== "/") {
    folder = new URL("..", folder);
  }
  const text = readFileSync(new URL("package.json", folder), "utf8");
  return (JSON.parse(text) as { version: string }).version;
}
