// osiris logs RUN: the log lines of a run, from all of its hosts.

import type { Command } from "commander";
import { connect, type LogRecord } from "../../../internal.ts";
import {
  type CommonOptions,
  type ConnectionArguments,
  connectionOf,
  withClient,
  withCommon,
} from "../../support/arguments.ts";
import { namedRun } from "../../support/named-run.ts";

interface LogsOptions extends CommonOptions, ConnectionArguments {
  readonly follow?: boolean;
}

/**
 * Fields with a fixed position in the readable line, or without a place in it; all other fields
 * follow as `name=value`.
 */
const placed = new Set(["time", "level", "message", "run", "actor"]);

export function addLogs(program: Command): void {
  const command = program
    .command("logs")
    .argument("<run>", "a run or the name of its job, as `osiris ls` lists them")
    .description("print the log lines of a run, from all of its hosts")
    .option("-f, --follow", "wait for further lines, until the run is over");
  withCommon(withClient(command), ["logs r12-1", "logs r12-1 -f --json"]).action(
    async (run: string, options: LogsOptions) => {
      await using client = await connect(connectionOf(options));
      const follow = options.follow === true;
      const onSilence = (sentence: string) => console.error(`  ! ${sentence}`);
      for await (const line of (await namedRun(client, run)).logs({ follow, onSilence })) {
        console.log(options.json === true ? JSON.stringify(line) : textOf(line));
      }
    },
  );
}

function textOf(line: LogRecord): string {
  const { time, level, actor, message } = line;
  const rest = Object.entries(line)
    .filter(([name, value]) => !placed.has(name) && value !== undefined)
    .map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  const who = actor === undefined ? [] : [`${actor}:`];
  return [time, String(level).padEnd(5), ...who, message, ...rest].join(" ");
}
