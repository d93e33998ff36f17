// osiris checkpoint now RUN: a checkpoint of a running run, besides the checkpoints of its job.

import type { Command } from "commander";
import { count } from "../../support/format.ts";
import { addRunCommand } from "../../support/run-command.ts";

/** Adds the command. */
export function addNow(checkpoint: Command): void {
  addRunCommand(checkpoint, {
    name: "checkpoint now",
    description: "have a running run make a checkpoint after its step, and wait until it is there",
    ask: (run) => run.checkpoint(),
    tell: (run, { step, digest }) => `Run ${run} is saved at step ${count(step)}, model ${digest}`,
  });
}
