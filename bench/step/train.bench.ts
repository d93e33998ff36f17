// Question: how many samples a second does a whole step train, forward, exchange, backward and
// update? Limit: what the processor's multiply-adds and the rows' traffic allow (step-limit.ts).

import { Option } from "commander";
import { type Bench, positiveOption, single } from "../bench.ts";
import { configuration, configurationNames } from "../configurations.ts";
import { type BenchRow, quantiles } from "../row.ts";
import { ratesOf, runSteps, type TrainingOptions } from "./device-threads.ts";
import { measureStepLimit } from "./step-limit.ts";

export const trainBench: Bench<TrainingOptions> = {
  question: "samples/s of whole training steps: median, 10th and 90th percentile",
  options: [
    new Option("--config <name>", "configuration, see bench/README.md")
      .choices(configurationNames)
      .default("a"),
    positiveOption("--batch <samples>", "samples of a batch", 2048),
    positiveOption("--devices <count>", "device threads", 2),
    new Option("--optimizer <kind>", "optimizer of tables (and of dense layers)")
      .choices(["sgd", "adagrad", "rowWiseAdagrad", "adam"])
      .default("sgd"),
    new Option("--arithmetic <kind>", "kernels")
      .choices(["auto", "native", "reference"])
      .default("auto"),
    new Option("--precision <kind>", "precision of the dense layers' products")
      .choices(["float32", "bfloat16"])
      .default("float32"),
    positiveOption("--seconds <seconds>", "how long to measure", 8),
  ],
  measurements(options) {
    const { config, batch, devices, optimizer, precision, seconds } = options;
    const suffix = precision === "float32" ? "" : `.${precision}`;
    const name = `train.${config}.${batch}.${optimizer}.${devices}${suffix}`;
    return [single(name, seconds + setUpSeconds[config], () => trainRow(name, options))];
  },
};

/** Seconds to make tables and batches, and to measure the limit. */
const setUpSeconds = { a: 4, b: 7, c: 15, d: 7, w: 7 } as const;

async function trainRow(name: string, options: TrainingOptions): Promise<BenchRow> {
  const { config, batch, devices, precision } = options;
  const [report] = await runSteps({ ...options, steps: Number.POSITIVE_INFINITY });
  const { median, spread } = quantiles(ratesOf(batch, report));
  const row = { name, figure: median, unit: "samples/s", spread };
  const limit = await measureStepLimit(configuration(config), devices, precision);
  if (limit.rate === 0) return row;
  return { ...row, limit: limit.rate, limitIs: limit.is, ratio: median / limit.rate };
}
