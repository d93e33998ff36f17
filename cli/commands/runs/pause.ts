// osiris pause RUN: a run lets go of its devices, with a checkpoint, until it is resumed.

import type { Command } from "commander";
import { addRunCommand } from "../../support/run-command.ts";

/** Adds the command. */
export function addPause(program: Command): void {
  addRunCommand(program, {
    name: "pause",
    description: "have a run let go of its devices after its step, until it is resumed",
    ask: async (run) => ({ status: await run.pause() }),
    tell: (run, { status }, command) =>
      `Run ${run} ${status === "running" ? "pauses after its current step" : "waits"}; ` +
      `\`osiris resume ${command}\` has it go on.`,
  });
}
