// osiris reader rate|drain RUN …: limits the readers of a run, or replaces the thread of one.

import type { Command } from "commander";
import { count } from "../../support/format.ts";
import { addRunCommand } from "../../support/run-command.ts";

const reader = {
  role: "reader",
  what: "its number, as `osiris status --readers` lists it",
} as const;

/** Adds the commands. */
export function addReader(program: Command): void {
  const command = program
    .command("reader")
    .description("limit the readers of a run, or have a fresh thread take the place of one");
  addRunCommand(command, {
    name: "reader rate",
    description: "have the readers of a run serve at most so many samples a second, same bits",
    example: " 5000",
    actors: [{ role: "samples", what: "samples a second of all of them together; 0: no limit" }],
    ask: async (run, _, samplesPerSecond = 0) => {
      await run.limitReaders({ samplesPerSecond });
      return { samplesPerSecond };
    },
    tell: (run, { samplesPerSecond }) =>
      samplesPerSecond === 0
        ? `The readers of run ${run} have no limit any more.`
        : `The readers of run ${run} keep to ${count(samplesPerSecond)} samples/s from now on.`,
  });
  addRunCommand(command, {
    name: "reader drain",
    description: "have a reader finish its batch, and a fresh thread read on, same bits",
    example: " 0",
    actors: [reader],
    ask: async (run, _, at = 0) => await run.drainReader(at),
    tell: (run, { reader: one, isForced, position }) =>
      `${isForced ? "Ended" : "Drained"} reader:${one} of run ${run}; a fresh thread reads on ` +
      `from step ${count(position.step)}.`,
  });
}
