// osiris predict DIRECTORY: the probabilities of a trained model for the lines of a file.

import type { Command } from "commander";
import {
  InvalidOptionError,
  loadModel,
  type Model,
  type PredictReport,
  predictFile,
} from "../../../index.ts";
import { shownPath } from "../../../src/data/remote/addresses.ts";
import { type CommonOptions, withCommon, withModelRoots } from "../../support/arguments.ts";
import { exitCodes } from "../../support/failure.ts";
import { count, metric } from "../../support/format.ts";
import { runTask } from "../../views/task-view.ts";

interface PredictOptions extends CommonOptions {
  readonly data?: string;
  readonly out: string;
  readonly keep?: readonly string[];
  readonly calibrate?: string;
  readonly column?: string;
  readonly manifest?: string;
}

/** Adds the command. */
export function addPredict(program: Command): void {
  const command = program
    .command("predict")
    .argument("<model>", "checkpoint directory, of which the best model is taken, or .osiris file")
    .argument("[data]", "file with the training columns; the label may be missing")
    .description("write a file again with what the model predicts on each line")
    .option("--data <FILE>", "the same file")
    .requiredOption(
      "-o, --out <FILE>",
      "file to write; as .csv, .jsonl (each also .gz or .zst), .parquet or .arrow of another format than the " +
        "data it has row numbers, kept columns and predictions",
    )
    .option("--keep <COLUMN...>", "columns beside the predictions: raw ids")
    .option(
      "--calibrate <FILE>",
      "also write calibrated probabilities, by the labels of this file; `held-out`: of the samples " +
        "that the job holds out; `none`: do not (default: as is stored with the model, if it is)",
    )
    .option(
      "--column <NAME>",
      'name of the new column (default: "probability"; of numbers "prediction")',
    )
    .option("--manifest <HASH>", "another checkpoint: its manifest's hash, `best` or `last`");
  withCommon(withModelRoots(command), [
    "predict checkpoints tomorrow.csv -o scored.csv",
    "predict model.osiris tomorrow.jsonl -o scored.parquet --keep user item",
    "predict checkpoints tomorrow.parquet -o scored.csv.gz --calibrate held-out",
    "predict checkpoints --data tomorrow.csv.gz --out scored.csv --column click",
  ]).action(async (directory: string, given: string | undefined, options: PredictOptions) => {
    const { out, column, manifest, keep, json } = options;
    const data = given ?? options.data;
    if (data === undefined || (given !== undefined && options.data !== undefined)) {
      const message = "Expected one file to predict, `osiris predict MODEL DATA -o OUT`";
      throw new InvalidOptionError("data", message);
    }
    const calibration = options.calibrate === undefined ? "stored" : "none";
    await using model = await loadModel(directory, { calibration, ...(manifest && { manifest }) });
    process.exitCode = await runTask(
      "predict",
      async (progress) => {
        const calibrations = await calibrationsOf(model, options.calibrate);
        const report = await predictFile(model, data, out, {
          ...{ column, keep, calibrations },
          ...progress,
        });
        return { ...report, calibrations };
      },
      (report) => {
        const { digest, step } = model;
        if (json) console.log(JSON.stringify({ report: "predict", ...report, digest, step }));
        else for (const line of linesOf(report, shownPath(data))) console.log(line);
        return exitCodes.done;
      },
    );
  });
}

/** How probabilities are calibrated, by samples that training did not see. */
async function calibrationsOf(model: Model, by: string | undefined) {
  if (by === undefined) return model.calibrations;
  if (by === "none") return undefined;
  if (by === "held-out") return model.calibrate();
  return model.calibrate({ paths: [by] });
}

function linesOf({ samples, bad, firstBad, mean, file }: PredictReport, data: string): string[] {
  const done = `${file}: ${count(samples)} predictions, mean ${metric(mean)}`;
  if (firstBad === undefined) return [done];
  const { line, reason } = firstBad;
  const left = `${count(bad)} bad lines have none; the first: ${data}:${line}: ${reason}`;
  return [done, left];
}
