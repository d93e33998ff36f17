// osiris calibrate MODEL: fits a calibration of predicted probabilities, stored with the model.

import type { Command } from "commander";
import {
  type CalibrateReport,
  calibrateModel,
  InvalidOptionError,
  removeCalibration,
} from "../../../internal.ts";
import { type CommonOptions, withCommon, withModelRoots } from "../../support/arguments.ts";
import { count, metric } from "../../support/format.ts";

interface CalibrateArguments extends CommonOptions {
  readonly manifest?: string;
  readonly remove?: true;
}

/** Adds the command. */
export function addCalibrate(program: Command): void {
  const command = program
    .command("calibrate")
    .argument("<model>", "checkpoint directory (its best model is used), or .osiris file")
    .argument("[data...]", "files with labels (default: the samples that the job holds out)")
    .description("fit a calibration of a model's probabilities, and store it with the model")
    .option("--manifest <HASH>", "use this checkpoint: its manifest's hash, `best` or `last`")
    .option("--remove", "remove the stored calibration instead of fitting one");
  withCommon(withModelRoots(command), [
    "calibrate checkpoints",
    "calibrate model.osiris yesterday.csv",
    "calibrate checkpoints --remove",
  ]).action(async (directory: string, data: string[], options: CalibrateArguments) => {
    const { manifest, remove = false, json } = options;
    const at = manifest === undefined ? {} : { manifest };
    if (remove) {
      if (data.length > 0) {
        throw new InvalidOptionError("remove", "Expected `--remove` without data, got both");
      }
      const removed = removeCalibration(directory, at);
      if (json) console.log(JSON.stringify({ report: "calibrate", directory, removed }));
      else console.log(removed ? "The calibration was removed." : "No calibration is stored.");
      return;
    }
    const paths = data.length === 0 ? {} : { data: { paths: data } };
    const report = await calibrateModel(directory, { ...at, ...paths });
    if (json) console.log(JSON.stringify({ report: "calibrate", ...report }));
    else for (const line of linesOf(report)) console.log(line);
  });
}

function linesOf({ tasks, by, digest, step }: CalibrateReport): string[] {
  const own = tasks.flatMap((one) => {
    if (one === null) return [];
    const { task, scale, offset, samples, positives, logLoss, calibratedLogLoss } = one;
    const name = tasks.length === 1 ? "" : `${task}: `;
    const fit = `logit -> ${metric(scale)} * logit + ${metric(offset)}`;
    const of = `${count(samples)} samples, ${count(positives)} of them positive`;
    return [
      `Calibration          ${name}${fit}, by ${of} (${by})`,
      `Log loss             ${name}${metric(logLoss)}, calibrated ${metric(calibratedLogLoss)}`,
    ];
  });
  return [
    ...own,
    `Stored with          ${digest} (step ${count(step)})`,
    "`osiris serve` and `osiris predict` apply it, unless `--calibration none` is given.",
  ];
}
