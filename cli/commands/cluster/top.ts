// osiris top: shows what a running cluster is doing, refreshed until Ctrl-C.

import type { Command } from "commander";
import { connect } from "../../../internal.ts";
import {
  type CommonOptions,
  type ConnectionArguments,
  connectionOf,
  integerFrom,
  numberFrom0,
  withCommon,
  withConnection,
} from "../../support/arguments.ts";
import { interruption } from "../../support/interrupt.ts";
import { runLines, topLines } from "../../views/cluster-view.ts";

interface TopArguments extends CommonOptions, ConnectionArguments {
  readonly every: number;
  readonly refreshes?: number;
}

export function addTop(program: Command): void {
  const command = program
    .command("top")
    .description("watch a running cluster: runs, processes, queues and waits; until Ctrl-C")
    .option("--every <SECONDS>", "seconds between two refreshes", numberFrom0, 1)
    .option("--refreshes <N>", "stop after N refreshes", integerFrom(1));
  withCommon(withConnection(command), [
    "top --token 4f1c...",
    "top --token 4f1c... --json | jq .runs        # one report",
    "top --every 10 >> runs.log                   # a line for each run",
  ]).action(top);
}

/** Redraws one page on a terminal; prints lines elsewhere; with `--json`, prints one report. */
async function top(options: TopArguments): Promise<void> {
  await using client = await connect(connectionOf(options));
  if (options.json === true) {
    console.log(JSON.stringify({ report: "top", ...(await client.inspect()) }));
    return;
  }
  const { isTTY } = process.stdout;
  const interrupted = interruption();
  let isOver = false;
  void interrupted.then(() => {
    isOver = true;
  });
  for (
    let refresh = 0;
    !isOver && refresh < (options.refreshes ?? Number.POSITIVE_INFINITY);
    refresh++
  ) {
    if (refresh > 0) await Promise.race([interrupted, pause(1000 * options.every)]);
    if (isOver) return;
    const report = await client.inspect();
    if (isTTY) process.stdout.write(page(topLines(report)));
    else for (const line of runLines(report)) console.log(line);
  }
}

/** Redraws the terminal from its top, with lines cut to its rows and columns. */
function page(lines: readonly string[]): string {
  const { rows = lines.length + 1, columns = 80 } = process.stdout;
  const shown = lines.slice(0, rows - 1).map((line) => `${line.slice(0, columns)}\x1b[K\n`);
  return `\x1b[H${shown.join("")}\x1b[J`;
}

function pause(ms: number): Promise<void> {
  return new Promise((resume) => {
    setTimeout(resume, ms).unref(); // The open connection keeps the process alive.
  });
}
