// osiris reader rate|drain RUN …: limits the readers of a run, or replaces the thread of one.

import type { Command } from "commander";
import { count } from "../../support/format.ts";
import { addRunCommand } from "../../support/run-command.ts";

const reader = {
  role: "reader",
  what: "number of the reader, as `osiris status --readers` lists it",
} as const;

export function addReader(program: Command): void {
  const command = program
    .command("reader")
    .description("limit the readers of a run, or replace the thread of a reader");
  addRunCommand(command, {
    name: "reader rate",
    description:
      "limit the samples a second that a run's readers read; no bit of its model changes",
    example: " 5000",
    actors: [{ role: "samples", what: "samples a second of all readers together; 0: no limit" }],
    request: async (run, _, samplesPerSecond = 0) => {
      await run.limitReaders({ samplesPerSecond });
      return { samplesPerSecond };
    },
    sentence: (run, { samplesPerSecond }) =>
      samplesPerSecond === 0
        ? `The readers of run ${run} have no limit any more.`
        : `The readers of run ${run} are limited to ${count(samplesPerSecond)} samples/s from now on.`,
  });
  addRunCommand(command, {
    name: "reader drain",
    description:
      "let a reader finish its batch, then replace its thread; no bit of the model changes",
    example: " 0",
    actors: [reader],
    request: async (run, _, at = 0) => await run.drainReader(at),
    sentence: (run, { reader: one, isForced, position }) =>
      `${isForced ? "Ended" : "Drained"} reader:${one} of run ${run}; a new thread continues ` +
      `from step ${count(position.step)}.`,
  });
}
