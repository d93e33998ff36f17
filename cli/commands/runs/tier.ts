// osiris tier show|flush RUN DEVICE: shows the tiers of a device's cached tables, or writes their
// rows to disk.

import type { Command } from "commander";
import { plural } from "../../support/format.ts";
import { addRunCommand } from "../../support/run-command.ts";
import { tierLines } from "../../views/tier-lines.ts";

const device = { role: "device", what: "a device with cached tables" } as const;

/** Adds the commands. */
export function addTier(program: Command): void {
  const command = program
    .command("tier")
    .description("show the tiers of a device, or write their rows to its disk");
  addRunCommand(command, {
    name: "tier show",
    description: "show how many rows of a device's cached tables each tier has, and its hit rate",
    example: " 1",
    actors: [device],
    ask: (run, _, at = 0) => run.inspectTier(at),
    tell: (_, report) => tierLines([report]).join("\n"),
  });
  addRunCommand(command, {
    name: "tier flush",
    description: "write the rows that only host memory has to the device's disk, now",
    example: " 1",
    actors: [device],
    ask: async (run, _, at = 0) => ({ device: at, rows: await run.flushTier(at) }),
    tell: (run, { device: at, rows }) =>
      `Run ${run} has written ${plural(rows, "row")} below device:${at} to its disk.`,
  });
}
