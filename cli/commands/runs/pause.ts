// osiris pause RUN: makes a run release its devices, with a checkpoint, until it is resumed.

import type { Command } from "commander";
import { addRunCommand } from "../../support/run-command.ts";

/** Adds the command. */
export function addPause(program: Command): void {
  addRunCommand(program, {
    name: "pause",
    description: "release a run's devices after its current step, until it is resumed",
    ask: async (run) => ({ status: await run.pause() }),
    tell: (run, { status }, command) =>
      `Run ${run} ${status === "running" ? "pauses after its current step" : "waits"}; ` +
      `\`osiris resume ${command}\` has it go on.`,
  });
}
