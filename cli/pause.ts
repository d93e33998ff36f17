// osiris pause RUN: a run lets go of its devices, with a checkpoint, until it is resumed.

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
export function addPause(program: Command): void {
  const command = program
    .command("pause")
    .argument("<run>", "the run, as `osiris ls` lists it")
    .description("have a run let go of its devices after its step, until it is resumed");
  withCommon(withClient(command), ["pause r12-1"]).action(
    async (run: string, options: CommonOptions & ConnectionArguments) => {
      await using client = await connect(connectionOf(options));
      await client.run(run).pause();
      if (options.json === true) console.log(JSON.stringify({ report: "pause", run }));
      else
        console.log(`Run ${run} pauses after its current step; \`osiris resume ${run}\` goes on.`);
    },
  );
}
