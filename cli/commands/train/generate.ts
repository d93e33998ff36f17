// osiris generate: writes synthetic data with a known best reachable AUC: Criteo text, a click log
// as CSV, or JSON Lines of sessions.

import { type Command, Option } from "commander";
import {
  InvalidOptionError,
  writeClickLines,
  writeSessionLines,
  writeSyntheticTsv,
} from "../../../internal.ts";
import {
  type CommonOptions,
  integerFrom,
  numberFrom0,
  withCommon,
} from "../../support/arguments.ts";
import { count, metric } from "../../support/format.ts";

interface GenerateOptions extends CommonOptions {
  readonly rows: number;
  readonly out: string;
  readonly samples: number;
  readonly zipf: number;
  readonly seed: number;
  readonly clicks?: boolean;
  readonly sessions?: number;
  readonly order?: "session" | "time";
}

export function addGenerate(program: Command): void {
  const command = program
    .command("generate")
    .description("write Criteo-like data: label, 13 integers, 26 categoricals, tab-separated")
    .requiredOption("--out <FILE>", "file to write")
    .option("--samples <N>", "number of lines", integerFrom(1), 100_000)
    .option("--rows <N>", "distinct ids of each categorical column", integerFrom(1), 10_000)
    .option("--zipf <Z>", "exponent of Zipf's law for the ids; 0: uniform", numberFrom0, 1.05)
    .option(
      "--seed <S>",
      "seed of the data, and of the true model that gives the labels",
      integerFrom(0),
      1,
    )
    .option(
      "--clicks",
      "write the click log of docs/tutorial.md as CSV instead; not with `--rows`, `--zipf`",
    )
    .option(
      "--sessions <MEAN>",
      "write JSON Lines of sessions instead, on average MEAN lines each, with repeated id lists",
      numberFrom0,
    )
    .addOption(
      new Option("--order <ORDER>", "order of the lines of --sessions (default: time)").choices([
        "session",
        "time",
      ]),
    );
  withCommon(command, [
    "generate --samples 1000000 --out train.tsv",
    "generate --rows 500 --zipf 1.2 --seed 7 --out small.tsv",
    "generate --clicks --samples 4000 --out clicks.csv",
    "generate --sessions 16.5 --out impressions.jsonl",
  ]).action((options: GenerateOptions) => {
    const { out, samples, rows, zipf, seed, sessions: mean, order } = options;
    if (order !== undefined && mean === undefined) {
      throw new InvalidOptionError("--order", "Expected `--sessions` beside `--order`, got none");
    }
    if (options.clicks === true && mean !== undefined) {
      const message = "Expected one of `--clicks` and `--sessions`, got both";
      throw new InvalidOptionError("--clicks", message);
    }
    const shared = { samples, rows, zipf, seed };
    const report = options.clicks
      ? writeClickLines({ samples, seed }, out)
      : mean === undefined
        ? writeSyntheticTsv(shared, out)
        : writeSessionLines({ ...shared, mean, ...(order && { order }) }, out);
    const { positives, bestAuc } = report;
    if (options.json === true) {
      console.log(JSON.stringify({ report: "generate", file: out, samples, positives, bestAuc }));
      return;
    }
    console.log(`${out}: ${count(samples)} samples, ${count(positives)} of them positive`);
    console.log(`Best reachable AUC: ${metric(bestAuc)}`);
  });
}
