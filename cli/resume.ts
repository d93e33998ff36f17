// osiris resume RUN: a run that was paused goes on, with the same bits.

import type { Command } from "commander";
import { connect } from "../index.ts";
import {
  type CommonOptions,
  type ConnectionArguments,
  connectionOf,
  withClient,
  withCommon,
} from "./arguments.ts";

/** Adds the command. */
export function addResume(program: Command): void {
  const command = program
    .command("resume")
    .argument("<run>", "the run, as `osiris ls` lists it")
    .description("have a run that was paused go on when it is its turn, with the same bits");
  withCommon(withClient(command), ["resume r12-1"]).action(
    async (run: string, options: CommonOptions & ConnectionArguments) => {
      await using client = await connect(connectionOf(options));
      await client.run(run).resume();
      if (options.json === true) console.log(JSON.stringify({ report: "resume", run }));
      else console.log(`Run ${run} goes on when it is its turn.`);
    },
  );
}
