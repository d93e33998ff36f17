// osiris history DIRECTORY: the learning curve of a run, as numbers.

import type { Command } from "commander";
import { historyCsv, runHistory } from "../../../index.ts";
import { type CommonOptions, withCommon } from "../../support/arguments.ts";
import { plural } from "../../support/format.ts";
import { writeCurve } from "../../support/history-file.ts";

interface HistoryOptions extends CommonOptions {
  readonly out?: string;
}

/** Adds the command. */
export function addHistory(program: Command): void {
  const command = program
    .command("history")
    .argument("<directory>", "checkpoint directory")
    .description("print the learning curve of a run as CSV: a line for each cut")
    .option("--out <FILE>", "write it to this file");
  withCommon(command, ["history checkpoints", "history checkpoints --out curve.csv"]).action(
    (directory: string, { out, json }: HistoryOptions) => {
      const points = runHistory(directory);
      if (out !== undefined) writeCurve(out, directory);
      if (json === true) console.log(JSON.stringify({ report: "history", directory, points }));
      else if (out === undefined) process.stdout.write(historyCsv(points));
      else console.log(`${out}: ${plural(points.length, "point")}`);
    },
  );
}
