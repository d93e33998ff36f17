// osiris cancel RUN: ends a run after its step, with a checkpoint.

import type { Command } from "commander";
import { addRunCommand } from "./run-command.ts";

/** Adds the command. */
export function addCancel(program: Command): void {
  addRunCommand(program, {
    name: "cancel",
    description:
      "stop a run after its current step, with a checkpoint; submitted again, it goes on",
    async ask(run) {
      await run.cancel();
      return {};
    },
    tell: (run) => `Run ${run} stops after its current step.`,
  });
}
