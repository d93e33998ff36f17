// osiris scale RUN: continues a run on another number of devices.

import type { Command } from "commander";
import { integerFrom } from "../../support/arguments.ts";
import { plural } from "../../support/format.ts";
import { addRunCommand } from "../../support/run-command.ts";

/** Adds the command. */
export function addScale(program: Command): void {
  addRunCommand(program, {
    name: "scale",
    description: "change a run's number of devices after its current step, with the same bits",
    example: " --devices 4",
    async ask(run, { devices }: { readonly devices: number }) {
      await run.scale({ devices });
      return { devices };
    },
    tell: (run, { devices }) => `Run ${run} goes on with ${plural(devices, "device")}.`,
  }).requiredOption("--devices <N>", "devices to go on with", integerFrom(1));
}
