// osiris checkpoint now RUN: a checkpoint of a running run, besides those of its job.

import type { Command } from "commander";
import { connect } from "../index.ts";
import {
  type CommonOptions,
  type ConnectionArguments,
  connectionOf,
  withClient,
  withCommon,
} from "./arguments.ts";
import { count } from "./format.ts";

/** Adds the command. */
export function addNow(checkpoint: Command): void {
  const command = checkpoint
    .command("now")
    .argument("<run>", "the run, as `osiris ls` lists it")
    .description("have a running run make a checkpoint after its step, and wait until it is there");
  withCommon(withClient(command), ["checkpoint now r12-1"]).action(
    async (run: string, options: CommonOptions & ConnectionArguments) => {
      await using client = await connect(connectionOf(options));
      const { step, digest } = await client.run(run).checkpoint();
      if (options.json === true) {
        console.log(JSON.stringify({ report: "checkpoint.now", run, step, digest }));
      } else console.log(`Run ${run} is saved at step ${count(step)}, model ${digest}`);
    },
  );
}
