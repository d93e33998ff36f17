// Question: how much do tables gain from `dedup` where ids repeat? The same model with it and
// without it, in turn on the same batches. Limit: the step without it, and the bytes that it sends.

import { Option } from "commander";
import { modelOptions } from "../../src/model/options.ts";
import { type Bench, notNegative, positiveOption, together } from "../bench.ts";
import { type BenchRow, rowOf } from "../row.ts";
import { runVariants } from "./variants.ts";

interface DedupBenchOptions {
  readonly batch: number;
  readonly devices: number;
  /** Ids of every bag. */
  readonly ids: number;
  /** Exponent of the ids' popularity. */
  readonly zipf: number;
  readonly rowWise: boolean;
  readonly rounds: number;
}

const [tables, rows, dim, dense] = [8, 100_000, 64, 13];

export const dedupBench: Bench<DedupBenchOptions> = {
  question: "whole steps and their bytes, with the tables' `dedup` beside without, in turn",
  options: [
    positiveOption("--ids <count>", "ids of a bag", 20),
    new Option("--zipf <exponent>", "how ids repeat; 0 is uniform")
      .argParser(notNegative)
      .default(1.05),
    positiveOption("--batch <samples>", "samples of a batch", 2048),
    positiveOption("--devices <count>", "device threads", 2),
    new Option("--row-wise", "tables cut by rows, over all devices").default(false),
    positiveOption("--rounds <count>", "turns of each", 15),
  ],
  measurements(options) {
    const { ids, zipf, batch, devices, rowWise, rounds } = options;
    const name = `${ids}.${zipf}.${batch}.${devices}${rowWise ? ".rowWise" : ""}`;
    const names = [`dedup.samples.${name}`, `dedup.sent.${name}`] as const;
    const seconds = 8 + 2 * (rounds + 1) * secondsOfTurn;
    return [together(names, seconds, () => dedupRows(names, options))];
  },
};

/** Estimated duration of a turn of ten steps. */
const secondsOfTurn = 1;

async function dedupRows(
  [samplesName, sentName]: readonly [string, string],
  options: DedupBenchOptions,
): Promise<BenchRow[]> {
  const { batch, ids, rowWise } = options;
  const sharding = rowWise ? { sharding: "row-wise", rowBlocks: 8 } : {};
  const inputs = [true, false].map((dedup) => {
    const model = modelOptions.parse({
      kind: "dlrm",
      dense,
      tables: Array.from({ length: tables }, (_, i) => {
        return { name: `T${i}`, rows, dim, dedup, ...sharding };
      }),
      bottom: [256, dim],
      top: [256, 1],
    });
    const idsMax = new Array<number>(tables).fill(ids);
    return { model, batchSize: batch, slices: 8, idsMax };
  });
  const reports = await runVariants(inputs, options);
  const [deduped, plain] = inputs.map((_, i) => ({
    rates: (reports[0]?.[i]?.stepMs ?? []).map((ms) => (1000 * batch) / ms),
    sent: reports.map((report) => (report[i]?.sentBytes ?? 0) / 1e6),
  }));
  const limitIs = "without";
  const samples = { name: samplesName, unit: "samples/s", limitIs };
  const sent = { name: sentName, unit: "MB a step", limitIs };
  return [
    rowOf(samples, deduped?.rates ?? [], plain?.rates ?? []),
    rowOf(sent, deduped?.sent ?? [], plain?.sent ?? []),
  ];
}
