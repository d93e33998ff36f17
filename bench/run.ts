// The benches' door: `npm run bench -- train --config a --batch 2048 --devices 2 --json`.

import { Command, InvalidArgumentError, Option } from "commander";
import { type AccuracyBenchOptions, benchAccuracy } from "./accuracy.bench.ts";
import { configurationNames } from "./configurations.ts";
import { benchKernels, type KernelsBenchOptions } from "./kernels.bench.ts";
import { printReport } from "./report.ts";
import { benchTrain, type TrainBenchOptions } from "./train.bench.ts";

const program = new Command("bench").description("Measures Osiris on this machine.");

program
  .command("train")
  .description("samples/s of whole training steps: median, 10th and 90th percentile")
  .addOption(
    new Option("--config <name>", "configuration, see bench/README.md")
      .choices(configurationNames)
      .default("a"),
  )
  .option("--batch <samples>", "samples of a batch", positive, 2048)
  .option("--devices <count>", "device threads", positive, 2)
  .addOption(
    new Option("--optimizer <kind>", "optimizer of tables (and of dense layers)")
      .choices(["sgd", "adagrad", "rowWiseAdagrad", "adam"])
      .default("sgd"),
  )
  .addOption(
    new Option("--arithmetic <kind>", "kernels")
      .choices(["auto", "native", "reference"])
      .default("auto"),
  )
  .addOption(
    new Option("--precision <kind>", "what dense layers multiply")
      .choices(["float32", "bfloat16"])
      .default("float32"),
  )
  .option("--seconds <seconds>", "how long to measure", positive, 8)
  .option("--json", "end with one line for machines", false)
  .action(async (options: TrainBenchOptions & { json: boolean }) => {
    printReport("train", [await benchTrain(options)], options.json);
  });

program
  .command("kernels")
  .description("each kernel beside its limit, measured in the same run")
  .option("--batch <samples>", "samples of a batch", positive, 2048)
  .option("--table-gib <size>", "gibibytes of the table that rows are read from", positive, 2)
  .option("--only <prefix>", "only rows whose names begin with this: gemm.bf16", "")
  .option("--json", "end with one line for machines", false)
  .action(async (options: KernelsBenchOptions & { json: boolean }) => {
    printReport("kernels", await benchKernels(options), options.json);
  });

program
  .command("accuracy")
  .description("what a reduced precision costs in log loss on generated samples, beside float32")
  .addOption(
    new Option("--precision <kind>", "what dense layers multiply")
      .choices(["float32", "bfloat16"])
      .default("bfloat16"),
  )
  .option("--samples <count>", "samples of the one pass", positive, 1_000_000)
  .option("--seeds <count>", "models, each with samples of its own", positive, 5)
  .option("--json", "end with one line for machines", false)
  .action(async (options: AccuracyBenchOptions & { json: boolean }) => {
    printReport("accuracy", await benchAccuracy(options), options.json);
  });

await program.parseAsync();

function positive(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1)
    throw new InvalidArgumentError("Expected an integer >= 1.");
  return value;
}
