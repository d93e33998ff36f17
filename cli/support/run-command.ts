// Makes commands that send one request about one run.

import type { Command } from "commander";
import { connect, type Run } from "../../internal.ts";
import {
  type CommonOptions,
  type ConnectionArguments,
  connectionFlags,
  connectionOf,
  integerFrom,
  withClient,
  withCommon,
} from "./arguments.ts";
import { namedRun } from "./named-run.ts";

type NumberedRole = "shard" | "device" | "reader" | "samples" | "step";

export interface RunCommand<Answer extends object, Options> {
  /** As it is typed: `pause`, `checkpoint now`; the report is named after it. */
  readonly name: string;
  readonly description: string;
  /** Text after the run in the example of the help. */
  readonly example?: string;
  /** Arguments after the run: numbers of its actors, or other numbers. */
  readonly actors?: readonly { readonly role: NumberedRole; readonly what: string }[];
  /** Sends the request, with these numbers; the answer goes into the report. */
  readonly request: (run: Run, options: Options, ...actors: number[]) => Promise<Answer>;
  /** The sentence for people. `command`: the arguments of another command for this run. */
  readonly sentence: (run: string, answer: Answer, command: string) => string;
}

/** Adds the command; its own options are the caller's to add. */
export function addRunCommand<Answer extends object, Options = unknown>(
  program: Command,
  { name, description, example = "", actors = [], request, sentence }: RunCommand<Answer, Options>,
): Command {
  const command = program
    .command(name.split(" ").at(-1) ?? name)
    .argument("<run>", "a run or the name of its job, as `osiris ls` lists them")
    .description(description);
  for (const { role, what } of actors) command.argument(`<${role}>`, what, numberOf(role));
  return withCommon(withClient(command), [`${name} r12-1${example}`]).action(
    async (given: string, ...rest: unknown[]) => {
      const numbers = rest.slice(0, actors.length) as number[];
      const options = rest[actors.length] as CommonOptions & ConnectionArguments & Options;
      await using client = await connect(connectionOf(options));
      const found = await namedRun(client, given);
      const answer = await request(found, options, ...numbers);
      const { run } = found;
      if (options.json !== true) console.log(sentence(run, answer, run + connectionFlags(options)));
      else console.log(JSON.stringify({ report: name.replace(" ", "."), run, ...answer }));
    },
  );
}

/** Reads `shard:3` or `3`: actors as reports name them, or their numbers. */
function numberOf(role: string): (given: string) => number {
  return (given) =>
    integerFrom(0)(given.startsWith(`${role}:`) ? given.slice(role.length + 1) : given);
}
