// osiris calibrate MODEL: fits a calibration of predicted probabilities, stored with the model.
// With --machine: measures this machine, for predictions of clusters of such machines.

import { type Command, Option } from "commander";
import {
  type CalibrateReport,
  calibrateModel,
  InvalidOptionError,
  removeCalibration,
} from "../../../internal.ts";
import { calibrateMachine } from "../../../packages/what-if/commands/calibrate-machine.ts";
import { type CommonOptions, withCommon, withModelRoots } from "../../support/arguments.ts";
import { count, metric } from "../../support/format.ts";

interface CalibrateArguments extends CommonOptions {
  readonly manifest?: string;
  readonly remove?: true;
  readonly machine?: true;
  readonly out?: string;
}

export function addCalibrate(program: Command): void {
  const command = program
    .command("calibrate")
    .argument("[model]", "checkpoint directory (its best model is used), or .osiris file")
    .argument("[data...]", "files with labels (default: the samples that the job holds out)")
    .description(
      "fit a calibration of a model's probabilities, and store it with the model; or measure this machine",
    )
    .option("--manifest <HASH>", "use this checkpoint: its manifest's hash, `best` or `last`")
    .option("--remove", "remove the stored calibration instead of fitting one")
    .addOption(
      new Option(
        "--machine",
        "without a model: measure this machine, as a hardware file",
      ).conflicts(["manifest", "remove", "modelRoot"]),
    )
    .option("-o, --out <FILE>", "with --machine: write the hardware file here (default: print it)");
  withCommon(withModelRoots(command), [
    "calibrate checkpoints",
    "calibrate model.osiris yesterday.csv",
    "calibrate checkpoints --remove",
    "calibrate --machine --out mine.yaml",
  ]).action(async (directory: string | undefined, data: string[], options: CalibrateArguments) => {
    const { manifest, remove = false, machine = false, json } = options;
    if (machine && directory === undefined) return calibrateMachine(options);
    if (machine || directory === undefined) {
      throw new InvalidOptionError("model", "Expected either a model, or `--machine` without one");
    }
    if (options.out !== undefined) {
      throw new InvalidOptionError("out", "Expected `--out` with `--machine` only");
    }
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
