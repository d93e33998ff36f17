// Question: what do the row blocks of tables and the slices of a batch cost a step, and does the
// planner predict the cost of slices? Both determine the model's bits, so a job pays for them even
// on one device. Limit: the same steps with one row block, and with eight slices, in turn.
// Predictions, by constants that are measured just before, are shares of the speed with 8 slices.

import { Option } from "commander";
import { calibrate } from "../../packages/what-if/index.ts";
import { type JobOptions, resolveJob } from "../../src/job/job.ts";
import { modelOptions } from "../../src/model/options.ts";
import { planJob } from "../../src/training/planning/plan-job.ts";
import type { TopologyInput } from "../../src/training/topology/topology.ts";
import { type Bench, type Measurement, notNegative, positiveOption, together } from "../bench.ts";
import { type BenchRow, meanRow, rowOf } from "../row.ts";
import { runVariants } from "./variants.ts";

interface GrainOptions {
  readonly batch: number;
  readonly devices: number;
  /** Ids of every bag. */
  readonly ids: number;
  /** Exponent of the ids' popularity. */
  readonly zipf: number;
  readonly rounds: number;
}

const [tables, rows, dim, dense] = [4, 100_000, 64, 13];

/** The first variant is the limit of the others. */
const rowBlocks = [1, 2, 4, 8, 16, 64] as const;
const slices = [8, 16, 32, 64, 128] as const;

export const grainBench: Bench<GrainOptions> = {
  question: "whole steps by the row blocks of their tables, and by the slices of their batch",
  options: [
    positiveOption("--ids <count>", "ids of a bag", 20),
    new Option("--zipf <exponent>", "how ids repeat; 0 is uniform")
      .argParser(notNegative)
      .default(1.05),
    positiveOption("--batch <samples>", "samples of a batch", 8192),
    positiveOption("--devices <count>", "device threads", 1),
    positiveOption("--rounds <count>", "turns of each", 5),
  ],
  measurements(options) {
    const { ids, zipf, batch, devices } = options;
    const place = `${ids}.${zipf}.${batch}.${devices}`;
    return [
      measurementOf(options, `grain.rowBlocks.${place}`, rowBlocks, (count) => {
        return inputOf(options, count, 8);
      }),
      measurementOf(options, `grain.slices.${place}`, slices, (count) => {
        return inputOf(options, 1, count);
      }),
      predictionOf(options, `grain.predicted.${place}`),
    ];
  },
};

/** Estimated duration of a turn of ten steps. */
const secondsOfTurn = 2.5;

/** A row for each count after the first. */
function measurementOf(
  options: GrainOptions,
  name: string,
  counts: readonly number[],
  inputFor: (count: number) => TopologyInput,
): Measurement {
  const others = counts.slice(1);
  const names = others.map((count) => `${name}.${count}`);
  const seconds = 8 + counts.length * (options.rounds + 1) * secondsOfTurn;
  return together(names, seconds, async (): Promise<BenchRow[]> => {
    const [report = []] = await runVariants(counts.map(inputFor), options);
    const [limit = [], ...rates] = report.map(({ stepMs }) => {
      return stepMs.map((ms) => (1000 * options.batch) / ms);
    });
    return names.map((own, i) => {
      const of = { name: own, unit: "samples/s", limitIs: `${counts[0]}` };
      return rowOf(of, rates[i] ?? [], limit);
    });
  });
}

/** The predicted speed with more slices, relative to the fewest. */
function predictionOf(options: GrainOptions, name: string): Measurement {
  const { batch: batchSize, devices, ids: idsPerBag, zipf } = options;
  const names = slices.slice(1).map((count) => `${name}.${count}`);
  return together(names, 60, async (): Promise<BenchRow[]> => {
    const machine = { devices, memoryBytes: 2 ** 33, source: "this bench", stepsOn: [devices] };
    const constants = await calibrate(machine);
    const [limit = 0, ...steps] = slices.map((count) => {
      const { model } = inputOf(options, 1, count);
      const data = { kind: "synthetic", samples: batchSize, dense, batchSize, idsPerBag, zipf };
      const sparse = { kind: "rowWiseAdagrad" };
      const job = { model, data, slices: count, optimizer: { sparse, dense: { kind: "adagrad" } } };
      const place = { devices: { hosts: 1, perHost: devices }, constants };
      const found = planJob(resolveJob(job as JobOptions), place);
      if (!found.isFeasible) throw new RangeError("The tables of this bench have room");
      return found.assessment.step - found.assessment.stages.read; // No reader takes part.
    });
    return names.map((own, i) => {
      return meanRow(own, [(100 * limit) / (steps[i] ?? 1)], "% of the speed with 8 slices");
    });
  });
}

function inputOf({ batch, ids }: GrainOptions, blocks: number, count: number): TopologyInput {
  const model = modelOptions.parse({
    kind: "dlrm",
    dense,
    tables: Array.from({ length: tables }, (_, i) => {
      return { name: `T${i}`, rows, dim, rowBlocks: blocks };
    }),
    bottom: [64, dim],
    top: [64, 1],
  });
  return { model, batchSize: batch, slices: count, idsMax: new Array<number>(tables).fill(ids) };
}
