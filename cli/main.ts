#!/usr/bin/env node
// The command `osiris`: runs the rollup of osiris.ts if it is current, else the compiled module.

import { fileURLToPath } from "node:url";
import { hasCodeCache, runCached } from "../src/ports/code-cache.ts";
import { entryFile } from "../src/ports/entry-file.ts";

// `osiris … | head` closes the pipe while we write.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  process.exit(error.code === "EPIPE" ? 0 : 1);
});

const program = entryFile("processes", "cli/osiris.js");
const file = fileURLToPath(program);
const loaded = hasCodeCache(file) ? runCached(file) : await import(program.href);
const { osiris } = loaded as typeof import("./osiris.ts");
await osiris(process.argv.slice(2));
