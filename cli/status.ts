// osiris status [RUN]: what a running cluster does.

import type { Command } from "commander";
import { connect, type RunSummary } from "../index.ts";
import {
  type CommonOptions,
  type ConnectionArguments,
  connectionOf,
  withClient,
  withCommon,
} from "./arguments.ts";
import { tellRuns } from "./ls.ts";
import { reportOf } from "./report.ts";

/** Adds the command. */
export function addStatus(program: Command): void {
  const command = program
    .command("status")
    .argument("[run]", "one run; left out: all of them")
    .description("tell what the runs of a running cluster are doing");
  withCommon(withClient(command), ["status", "status r12-1 --json"]).action(
    async (run: string | undefined, options: CommonOptions & ConnectionArguments) => {
      await using client = await connect(connectionOf(options));
      if (run === undefined) tellRuns("status", await client.list(), options);
      else tellOne(await client.run(run).status(), options.json === true);
    },
  );
}

function tellOne(summary: RunSummary, json: boolean): void {
  if (json) {
    console.log(JSON.stringify({ report: "status", ...summary }));
    return;
  }
  const { run, name, status, result, error } = summary;
  console.log(`Run ${run} (${name}): ${status}${error === undefined ? "" : `: ${error.message}`}`);
  if (result !== undefined) for (const line of reportOf(result)) console.log(line);
}
