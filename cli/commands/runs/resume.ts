// osiris resume RUN: continues a paused run, with the same bits.

import type { Command } from "commander";
import { addRunCommand } from "../../support/run-command.ts";

/** Adds the command. */
export function addResume(program: Command): void {
  addRunCommand(program, {
    name: "resume",
    description: "continue a paused run when it is its turn, with the same bits",
    ask: async (run) => ({ status: await run.resume() }),
    tell: (run) => `Run ${run} goes on when it is its turn.`,
  });
}
