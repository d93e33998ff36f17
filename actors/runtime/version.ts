// The version of this package: hosts of one cluster have the same one.

import { readFileSync } from "node:fs";

/** What package.json says. */
export function packageVersion(): string {
  const text = readFileSync(new URL("../../../package.json", import.meta.url), "utf8");
  return (JSON.parse(text) as { version: string }).version;
}
