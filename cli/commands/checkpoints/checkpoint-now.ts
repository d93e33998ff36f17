// osiris checkpoint now RUN: makes a checkpoint of a running run, besides those of its job.

import type { Command } from "commander";
import { count } from "../../support/format.ts";
import { addRunCommand } from "../../support/run-command.ts";

/** Adds the command. */
export function addNow(checkpoint: Command): void {
  addRunCommand(checkpoint, {
    name: "checkpoint now",
    description: "make a checkpoint of a running run after its current step, and wait for it",
    ask: (run) => run.checkpoint(),
    tell: (run, { step, digest }) => `Run ${run} is saved at step ${count(step)}, model ${digest}`,
  });
}
