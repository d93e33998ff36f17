// Loads the program of `osiris`: its rollup if that is current, else the compiled module.

import { fileURLToPath } from "node:url";
import { hasCodeCache, runCached } from "../src/ports/code-cache.ts";
import { entryFile } from "../src/ports/entry-file.ts";

export async function loadProgram(): Promise<typeof import("./osiris.ts")> {
  const program = entryFile("processes", "cli/osiris.js");
  const file = fileURLToPath(program);
  const loaded = hasCodeCache(file) ? runCached(file) : await import(program.href);
  return loaded as typeof import("./osiris.ts");
}
