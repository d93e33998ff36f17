// osiris predict DIRECTORY: the probabilities of a trained model for the lines of a file.

import type { Command } from "commander";
import { loadModel, type PredictReport, predictFile } from "../../../index.ts";
import { shownPath } from "../../../src/data/remote/addresses.ts";
import { type CommonOptions, withCommon } from "../../support/arguments.ts";
import { exitCodes } from "../../support/failure.ts";
import { count, metric } from "../../support/format.ts";
import { runTask } from "../../views/task-view.ts";

interface PredictOptions extends CommonOptions {
  readonly data: string;
  readonly out: string;
  readonly column?: string;
  readonly manifest?: string;
}

/** Adds the command. */
export function addPredict(program: Command): void {
  const command = program
    .command("predict")
    .argument("<directory>", "checkpoint directory; its best model, else its last, is taken")
    .description("write a file again with what the model predicts on each line")
    .requiredOption("--data <FILE>", "file with the training columns; the label may be missing")
    .requiredOption("--out <FILE>", "file to write")
    .option(
      "--column <NAME>",
      'name of the new column (default: "probability"; of numbers "prediction")',
    )
    .option("--manifest <HASH>", "another checkpoint: its manifest's hash, `best` or `last`");
  withCommon(command, [
    "predict checkpoints --data tomorrow.csv --out scored.csv",
    "predict checkpoints --data tomorrow.csv.gz --out scored.csv --column click",
  ]).action(async (directory: string, options: PredictOptions) => {
    const { data, out, column, manifest, json } = options;
    await using model = await loadModel(directory, manifest === undefined ? {} : { manifest });
    process.exitCode = await runTask(
      "predict",
      (progress) => predictFile(model, data, out, { column, ...progress }),
      (report) => {
        const { digest, step } = model;
        if (json) console.log(JSON.stringify({ report: "predict", ...report, digest, step }));
        else for (const line of linesOf(report, shownPath(data))) console.log(line);
        return exitCodes.done;
      },
    );
  });
}

function linesOf({ samples, bad, firstBad, mean, file }: PredictReport, data: string): string[] {
  const done = `${file}: ${count(samples)} predictions, mean ${metric(mean)}`;
  if (firstBad === undefined) return [done];
  const { line, reason } = firstBad;
  const left = `${count(bad)} bad lines have none; the first: ${data}:${line}: ${reason}`;
  return [done, left];
}
