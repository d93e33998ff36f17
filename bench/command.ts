// The command line of the benches: their options and the output.

import { writeFileSync } from "node:fs";
import { Command } from "commander";
import { type Bench, narrowed, wantedBy } from "./bench.ts";
import { benches } from "./benches.ts";
import { htmlOf } from "./html.ts";
import { durationOf, machine, openReport, type Printer, secondsOf } from "./report.ts";
import type { BenchRow } from "./row.ts";
import { runSession } from "./session.ts";

/** Options that every bench has, in addition to its own. */
interface CommonOptions {
  readonly only: readonly string[];
  readonly list?: true;
  readonly full?: true;
  readonly json: boolean;
  readonly html?: string;
}

/** Output and measuring process of the command; tests replace them. */
export interface BenchTools extends Printer {
  readonly session: typeof runSession;
}

const usual: BenchTools = { print: console.log, tell: console.error, session: runSession };

/** The command with all benches; a bench's result is the exit code of this process. */
export function benchCommand(tools: BenchTools = usual): Command {
  const program = new Command("bench").description(
    "Measures Osiris on this machine. `bench NAME --help` has the options of one bench.",
  );
  for (const [name, bench] of Object.entries(benches)) addCommand(program, name, bench, tools);
  return program;
}

function addCommand(program: Command, name: string, bench: Bench, tools: BenchTools): void {
  const command = program.command(name);
  for (const option of bench.options) command.addOption(option);
  const short = durationOf(secondsOf(bench.measurements(command.opts())));
  const long = bench.full && secondsOf(bench.measurements({ ...command.opts(), ...bench.full }));
  command
    .description(`${bench.question} (about ${short})`)
    .option("--only <patterns...>", "only rows whose names begin so; * matches any text", [])
    .option("--list", "print the names of the rows, and measure nothing")
    .option("--html <FILE>", "also draw the rows beside their limits, as a page")
    .option("--json", "print a line of JSON for each row, and a last one with all rows", false);
  if (long !== undefined && bench.full !== undefined) {
    command.option("--full", `the long run: ${flagsOf(bench.full)} (about ${durationOf(long)})`);
  }
  command.action(async () => {
    process.exitCode = await runBench(name, bench, command, tools);
  });
}

async function runBench(
  name: string,
  bench: Bench,
  command: Command,
  tools: BenchTools,
): Promise<number> {
  const { only, list, full, json, html, ...given } = command.opts<CommonOptions>();
  const isGiven = (key: string) => command.getOptionValueSource(key) === "cli";
  const long = Object.entries(full === true ? (bench.full ?? {}) : {});
  const options = { ...given, ...Object.fromEntries(long.filter(([key]) => !isGiven(key))) };
  const measurements = narrowed(bench.measurements(options), only);
  const isWanted = wantedBy(only);
  if (measurements.length === 0) {
    const patterns = only.join(" ");
    command.parent?.error(`No row of ${name} begins with "${patterns}": --list prints the names.`);
  }
  if (list === true) {
    for (const row of measurements.flatMap(({ names }) => names)) {
      if (isWanted(row)) tools.print(row);
    }
    return 0;
  }
  const report = openReport(name, json, tools);
  report.start(measurements, isWanted);
  const rows: BenchRow[] = [];
  const code = await tools.session({ bench: name, options, only }, (message) => {
    if ("row" in message) {
      rows.push(message.row);
      report.row(message.row);
    } else report.begin(message.begin);
  });
  report.end(code > 1);
  if (html !== undefined)
    writeFileSync(html, htmlOf(name, Object.values(machine()).join(", "), rows));
  return code;
}

/** Options as flags of a command line: `--sizes 8 64 --rounds 5`. */
function flagsOf(options: object): string {
  const flags = Object.entries(options).map(([key, value]) => {
    const flag = `--${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
    return value === true ? flag : [flag, ...[value].flat()].join(" ");
  });
  return flags.join(" ");
}
