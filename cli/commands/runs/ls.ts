// osiris ls: the runs of a running cluster, in a table.

import type { Command } from "commander";
import { connect, type RunLine } from "../../../internal.ts";
import {
  type CommonOptions,
  type ConnectionArguments,
  connectionOf,
  integerFrom,
  withClient,
  withCommon,
} from "../../support/arguments.ts";
import { aligned, count, percent, plural } from "../../support/format.ts";

export function addLs(program: Command): void {
  const command = program
    .command("ls")
    .description("list the runs of a running cluster, in the order of their submission")
    .option("--last <N>", "list only the N runs submitted last", integerFrom(1));
  withCommon(withClient(command), ["ls", "ls --last 20", "ls --json"]).action(
    async (options: CommonOptions & ConnectionArguments & { readonly last?: number }) => {
      await using client = await connect(connectionOf(options));
      const runs = await client.list();
      printRuns("ls", runs.slice(-(options.last ?? runs.length)), options);
    },
  );
}

/** Prints a table of runs, or one line of JSON. */
export function printRuns(
  report: string,
  runs: readonly RunLine[],
  { json }: Pick<CommonOptions, "json">,
): void {
  if (json === true) {
    console.log(JSON.stringify({ report, runs }));
    return;
  }
  console.log(plural(runs.length, "run"));
  if (runs.length === 0) return;
  const head = ["RUN", "STATUS", "PRIORITY", "STEP", "DONE", "TENANT", "NAME"];
  for (const line of aligned([head, ...runs.map(cellsOf)])) console.log(`  ${line}`);
}

function cellsOf({ run, status, priority, step, steps, tenant, name }: RunLine): string[] {
  const done = step === undefined || !steps ? "-" : percent(step / steps);
  const at = step === undefined ? "-" : count(step);
  return [run, status, `${priority}`, at, done, tenant ?? "-", name];
}
