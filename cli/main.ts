#!/usr/bin/env node
// The command `osiris`.

import { loadProgram } from "./program.ts";

// `osiris … | head` closes the pipe while we write.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  process.exit(error.code === "EPIPE" ? 0 : 1);
});

const { osiris } = await loadProgram();
await osiris(process.argv.slice(2));
