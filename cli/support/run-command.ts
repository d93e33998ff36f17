// What the commands have in common that ask one thing of one run.

import type { Command } from "commander";
import { connect, type Run } from "../../index.ts";
import {
  type CommonOptions,
  type ConnectionArguments,
  connectionOf,
  withClient,
  withCommon,
} from "./arguments.ts";
import { namedRun } from "./named-run.ts";

export interface RunCommand<Answer extends object, Options> {
  /** As it is typed: `pause`, `checkpoint now`; the report is named after it. */
  readonly name: string;
  readonly description: string;
  /** What follows the run in the example. */
  readonly example?: string;
  /** Asks the run; what comes back goes into the report. */
  readonly ask: (run: Run, options: Options) => Promise<Answer>;
  /** The sentence for people. */
  readonly tell: (run: string, answer: Answer) => string;
}

/** Adds the command; its own options are the caller's to add. */
export function addRunCommand<Answer extends object, Options = unknown>(
  program: Command,
  { name, description, example = "", ask, tell }: RunCommand<Answer, Options>,
): Command {
  const command = program
    .command(name.split(" ").at(-1) ?? name)
    .argument("<run>", "a run or the name of its job, as `osiris ls` lists them")
    .description(description);
  return withCommon(withClient(command), [`${name} r12-1${example}`]).action(
    async (given: string, options: CommonOptions & ConnectionArguments & Options) => {
      await using client = await connect(connectionOf(options));
      const found = await namedRun(client, given);
      const answer = await ask(found, options);
      const { run } = found;
      if (options.json !== true) console.log(tell(run, answer));
      else console.log(JSON.stringify({ report: name.replace(" ", "."), run, ...answer }));
    },
  );
}
