// osiris predict MODEL DATA...: the predictions of a trained model for the lines of files.

import type { Command } from "commander";
import {
  type ArithmeticChoice,
  type CommonOptions,
  noteArithmetic,
  withArithmetic,
  withCommon,
  withModelRoots,
} from "../../../cli/support/arguments.ts";
import { exitCodes } from "../../../cli/support/failure.ts";
import { count, metric } from "../../../cli/support/format.ts";
import { runTask } from "../../../cli/views/task-view.ts";
import { InvalidOptionError, loadModel, type Model } from "../../../internal.ts";
import { type PredictReport, predictFile, refuseToReplace } from "../predict/predict-file.ts";

interface PredictOptions extends CommonOptions {
  readonly data?: readonly string[];
  readonly out: string;
  readonly keep?: readonly string[];
  readonly calibration?: string;
  readonly arithmetic?: ArithmeticChoice;
  readonly column?: string;
  readonly manifest?: string;
}

export function addPredict(program: Command): void {
  const command = program
    .command("predict")
    .argument("<model>", "checkpoint directory (its best model is used), or .osiris file")
    .argument(
      "[data...]",
      "files, directories and patterns with the training columns; the label may be missing",
    )
    .description("copy the rows of files, and add the model's prediction to each")
    .option("--data <FILE...>", "data files, in addition to the arguments")
    .requiredOption(
      "-o, --out <FILE>",
      "file to write: .csv, .jsonl (each also .gz or .zst), .parquet or .arrow; if its format " +
        "differs from the data's, it has only row numbers, the columns of --keep and predictions",
    )
    .option("--keep <COLUMN...>", "columns of the data to write beside the predictions")
    .option(
      "--calibration <WHICH>",
      "add calibrated probabilities: `stored` with the model, fitted to the `held-out` samples of " +
        "its job or to the labels of a FILE, or `none` (default: stored, if there is one)",
    )
    .option(
      "--column <NAME>",
      'name of the new column (default: "probability"; for regression "prediction")',
    )
    .option("--manifest <HASH>", "use this checkpoint: its manifest's hash, `best` or `last`");
  withCommon(withArithmetic(withModelRoots(command)), [
    "predict checkpoints tomorrow.csv -o scored.csv",
    "predict model.osiris tomorrow.jsonl -o scored.parquet --keep user session",
    "predict checkpoints clicks/date=2026-11-28 -o scored.parquet --keep user",
    "predict checkpoints tomorrow.parquet -o scored.csv.gz --calibration held-out",
    "predict checkpoints --data tomorrow.csv.gz --out scored.csv --column click",
  ]).action(async (directory: string, given: readonly string[], options: PredictOptions) => {
    const { out, column, manifest, keep, json } = options;
    const data = [...given, ...(options.data ?? [])];
    if (data.length === 0) {
      const message = "Expected data to predict, `osiris predict MODEL DATA -o OUT`";
      throw new InvalidOptionError("data", message);
    }
    refuseToReplace([directory], out);
    const by = options.calibration ?? "stored";
    const calibration = by === "stored" ? "stored" : "none";
    const { arithmetic = "same" } = options;
    const choice = { calibration, arithmetic, ...(manifest && { manifest }) } as const;
    await using model = await loadModel(directory, choice);
    noteArithmetic(model);
    process.exitCode = await runTask(
      "predict",
      async (progress) => {
        const calibrations = await calibrationsOf(model, by);
        const report = await predictFile(model, data, out, {
          ...{ column, keep, calibrations },
          ...progress,
        });
        return { ...report, calibrations };
      },
      (report) => {
        const { digest, step } = model;
        if (json) console.log(JSON.stringify({ report: "predict", ...report, digest, step }));
        else for (const line of linesOf(report)) console.log(line);
        return exitCodes.done;
      },
    );
  });
}

/** The calibrations of `--calibration`: stored, or fitted to samples unseen in training. */
async function calibrationsOf(model: Model, by: string) {
  if (by === "stored") return model.calibrations;
  if (by === "none") return undefined;
  if (by === "held-out") return model.calibrate();
  return model.calibrate({ paths: [by] });
}

function linesOf({ samples, bad, firstBad, means, file }: PredictReport): string[] {
  const all = Object.entries(means);
  const shown = all.map(([task, mean]) => (all.length > 1 ? `${task} ` : "") + metric(mean));
  const done = `${file}: ${count(samples)} predictions, mean ${shown.join(", ")}`;
  if (firstBad === undefined) return [done];
  const { file: from, line, reason } = firstBad;
  const left = `${count(bad)} bad lines have none; the first: ${from}:${line}: ${reason}`;
  return [done, left];
}
