// osiris eval DIRECTORY: metrics of a trained model on other data or on the samples that its job
// holds out, also by the values of a column; and the importance of its features.

import type { Command } from "commander";
import { finiteWarnings } from "../../../actors/run/state/warnings.ts";
import {
  type EvaluationData,
  featureImportance,
  InvalidOptionError,
  loadModel,
  type Metrics,
  type Model,
  sliceMetrics,
} from "../../../internal.ts";
import { trainingDataWarnings } from "../../../storage/model/evaluation/evaluation-warnings.ts";
import {
  type ArithmeticChoice,
  type CommonOptions,
  collected,
  noteArithmetic,
  withArithmetic,
  withCommon,
  withModelRoots,
} from "../../support/arguments.ts";
import { criteoData } from "../../support/criteo-file.ts";
import { count } from "../../support/format.ts";
import { importanceLines, sliceLines } from "../../views/evaluation-tables.ts";
import { figureLines } from "../../views/figures.ts";
import { taskLines } from "../../views/report.ts";

interface EvalOptions extends CommonOptions {
  readonly data?: readonly string[];
  readonly test?: boolean;
  readonly heldOut?: boolean;
  readonly by?: readonly string[];
  readonly slices?: number;
  readonly importance?: boolean;
  readonly seed?: number;
  readonly manifest?: string;
  readonly thresholds?: string;
  readonly arithmetic?: ArithmeticChoice;
}

export function addEval(program: Command): void {
  const command = program
    .command("eval")
    .argument("<directory>", "checkpoint directory (its best model, else its last, is used)")
    .description("evaluate a trained model on files with the columns that it was trained on")
    .option("--data <FILE>", "file to evaluate on; may be repeated", collected)
    .option("--test", "evaluate on the test samples (`evaluation.test`) of the model's job")
    .option("--held-out", "evaluate on the samples that the job holds out for its evaluations")
    .option(
      "--by <COLUMNS>",
      "print metrics for each value of these columns, such as country,device; may be repeated",
      collected,
    )
    .option(
      "--slices <N>",
      "with --by: most values of a column with a line each; the rest share one (default: 20)",
      Number,
    )
    .option("--importance", "print how much worse metrics get when a feature is permuted")
    .option(
      "--seed <N>",
      "with --importance: seed of the permutations (default: the job's seed)",
      Number,
    )
    .option(
      "--thresholds <LIST>",
      "print precision and recall at these thresholds: probabilities, such as 0.1,0.5",
    )
    .option("--manifest <HASH>", "use this checkpoint: its manifest's hash, `best` or `last`");
  withCommon(withArithmetic(withModelRoots(command)), [
    "eval checkpoints --data test.tsv",
    "eval checkpoints --data test.tsv --manifest best",
    "eval checkpoints --test",
    "eval checkpoints --test --thresholds 0.1,0.5",
    "eval checkpoints --held-out --by country,device",
    "eval checkpoints --data test.tsv --importance",
  ]).action(async (directory: string, options: EvalOptions) => {
    const { manifest, data, test: isTest = false, heldOut: isHeldOut = false } = options;
    if (Number(data !== undefined) + Number(isTest) + Number(isHeldOut) !== 1) {
      const message =
        "Expected one of `--data FILE`, `--test` (the job's test samples) and `--held-out` (the " +
        "samples that the job holds out for evaluations)";
      throw new InvalidOptionError("--data", message);
    }
    const { arithmetic = "same" } = options;
    await using model = await loadModel(directory, { arithmetic, ...(manifest && { manifest }) });
    noteArithmetic(model);
    const dataDiffers = model.job.data.kind === "synthetic"; // Such a model reads Criteo files.
    const thresholds = options.thresholds?.split(",").map(Number);
    const part: "evaluation" | "test" = isTest ? "test" : "evaluation";
    const at = { ...(thresholds && { thresholds }), ...(data ? { dataDiffers } : { part }) };
    const files = data && (await dataOf(model, data));
    const metrics = await model.evaluate(files, at);
    const { by, slices: slicesMax, importance: isWanted = false, seed } = options;
    const columns = by?.flatMap((list) => list.split(","));
    const slices =
      columns && (await sliceMetrics(model, columns, { data: files, slicesMax, ...at }));
    const importance = isWanted
      ? await featureImportance(model, { data: files, seed, ...at })
      : undefined;
    const own = files ? await trainingDataWarnings(model, files, dataDiffers) : [];
    const warnings = [...own, ...warningsOf(metrics), ...finiteWarnings(part, metrics)];
    if (options.json === true) {
      const of = { ...(isTest && { part: "test" }), ...metrics, digest: model.digest, warnings };
      const report = { report: "eval", ...of, ...(slices && { slices }), importance };
      console.log(JSON.stringify(report));
      return;
    }
    const { samples, positives, rmse } = metrics;
    const ofClasses = rmse === undefined ? `, ${count(positives)} of them positive` : "";
    console.log(`Samples              ${count(samples)}${ofClasses}`);
    for (const line of figureLines(metrics)) console.log(line);
    for (const line of taskLines(metrics.tasks)) console.log(line);
    console.log(`Digest               ${model.digest} (step ${count(model.step)})`);
    for (const { message } of warnings) console.log(`Warning              ${message}`);
    for (const line of sliceLines(slices ?? [])) console.log(line);
    for (const line of importance ? importanceLines(importance) : []) console.log(line);
  });
}

/** Warns where all samples are of one class: they have a log loss, but no AUC and no NE. */
function warningsOf({ samples, positives, rmse }: Metrics) {
  if (rmse !== undefined || (positives > 0 && positives < samples)) return [];
  const label = positives === 0 ? 0 : 1;
  const message = `There is no AUC and no normalized entropy: all samples have the label ${label}`;
  return [{ code: "EVALUATION_OF_ONE_CLASS", message }];
}

/**
 * The files to evaluate on, with the columns of the training; for generated data, a Criteo file.
 */
async function dataOf(model: Model, paths: readonly string[]): Promise<EvaluationData> {
  const { data } = model.job;
  if (data.kind !== "synthetic") return { paths: [...paths] };
  const [path, ...others] = paths;
  if (path === undefined || others.length > 0) {
    const message = "Expected one Criteo file, as the model was trained on generated data";
    throw new InvalidOptionError("--data", message);
  }
  return criteoData(path, { batchSize: data.batchSize, cache: data.cache });
}
