// osiris cancel RUN: ends a run after its step, with a checkpoint.

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
export function addCancel(program: Command): void {
  const command = program
    .command("cancel")
    .argument("<run>", "the run, as `osiris status` lists it")
    .description(
      "stop a run after its current step, with a checkpoint; submitted again, it goes on",
    );
  withCommon(withClient(command), ["cancel r12-1"]).action(
    async (run: string, options: CommonOptions & ConnectionArguments) => {
      await using client = await connect(connectionOf(options));
      await client.run(run).cancel();
      if (options.json === true) console.log(JSON.stringify({ report: "cancel", run }));
      else console.log(`Run ${run} stops after its current step.`);
    },
  );
}
