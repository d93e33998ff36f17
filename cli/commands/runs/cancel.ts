// osiris cancel RUN: ends a run after its step, with a checkpoint.

import type { Command } from "commander";
import { addRunCommand } from "../../support/run-command.ts";

/** Adds the command. */
export function addCancel(program: Command): void {
  addRunCommand(program, {
    name: "cancel",
    description:
      "stop a run after its current step, with a checkpoint; submitted again, it goes on",
    ask: async (run) => ({ status: await run.cancel() }),
    tell: (run, { status }) => {
      if (status === "running") return `Run ${run} stops after its current step.`;
      const isOver = status === "finished" || status === "failed";
      return isOver ? `Run ${run} is over already: ${status}.` : `Run ${run} is cancelled.`;
    },
  });
}
