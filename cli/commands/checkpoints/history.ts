// osiris history DIRECTORY: the learning curve of a run, as numbers.

import { closeSync, openSync, statSync, writeFileSync } from "node:fs";
import type { Command } from "commander";
import { historyCsv, InputUnusableError, resolveJob, runHistory } from "../../../internal.ts";
import { type CommonOptions, withCommon } from "../../support/arguments.ts";
import { plural } from "../../support/format.ts";
import { loadJob } from "../../support/job-file.ts";

interface HistoryOptions extends CommonOptions {
  readonly out?: string;
}

export function addHistory(program: Command): void {
  const command = program
    .command("history")
    .argument("<directory>", "checkpoint directory, or a job file")
    .description("print the learning curve of a run as CSV: a line for each checkpoint")
    .option("--out <FILE>", "write the curve to this file instead of printing it");
  withCommon(command, ["history checkpoints", "history job.yaml --out curve.csv"]).action(
    async (from: string, { out, json }: HistoryOptions) => {
      const isJob = statSync(from, { throwIfNoEntry: false })?.isFile() === true;
      const directory = isJob ? resolveJob(await loadJob(from)).checkpoint.directory : from;
      const points = runHistory(directory);
      if (out !== undefined) writeCurve(out, directory);
      if (json === true) console.log(JSON.stringify({ report: "history", directory, points }));
      else if (out === undefined) process.stdout.write(historyCsv(points));
      else console.log(`${out}: ${plural(points.length, "point")}`);
    },
  );
}

/** Writes the curve of a checkpoint directory to a CSV file. @throws InputUnusableError */
export function writeCurve(path: string, directory: string): void {
  const text = historyCsv(runHistory(directory));
  writing(path, () => writeFileSync(path, text));
}

/** A check before a run of hours. @throws InputUnusableError where the file cannot be written */
export function checkCurve(path: string): void {
  writing(path, () => closeSync(openSync(path, "a")));
}

function writing(path: string, write: () => void): void {
  try {
    write();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new InputUnusableError(path, `Cannot write the curve ${path}: ${reason}`, { cause });
  }
}
