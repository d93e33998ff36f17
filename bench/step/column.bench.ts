// Question: how much longer is a step if its tables are cut by columns? Each table is cut in two,
// one part for each device, in turn with whole tables. Limit: the step with whole tables.

import { modelOptions } from "../../src/model/options.ts";
import type { TopologyInput } from "../../src/training/topology/topology.ts";
import { type Bench, positiveOption, together } from "../bench.ts";
import { type BenchRow, meanOf, rowOf } from "../row.ts";
import { runVariants } from "./variants.ts";

interface ColumnOptions {
  readonly tables: number;
  readonly batch: number;
  readonly ids: number;
  readonly rows: number;
  readonly rounds: number;
}

const [dim, dense, devices, zipf] = [64, 4, 2, 0];

/** The time of a step, of a device's processor, and of the stages in which the two may differ. */
const times = ["step", "processor", "ids", "tiers", "lookup", "exchange", "compute", "update"];

export const columnBench: Bench<ColumnOptions> = {
  question: "whole steps with column-wise tables beside table-wise ones, in turn, by stage",
  options: [
    positiveOption("--tables <count>", "tables of 64 columns", 100),
    positiveOption("--batch <samples>", "samples of a batch", 512),
    positiveOption("--ids <count>", "ids of a bag", 4),
    positiveOption("--rows <count>", "rows of a table", 2000),
    positiveOption("--rounds <count>", "turns of each", 9),
  ],
  measurements(options) {
    const { tables, batch, ids, rows, rounds } = options;
    const names = times.map((time) => `column.${time}.${tables}.${batch}.${ids}.${rows}`);
    const seconds = 4 + tables * (0.05 + rounds * batch * ids * secondsOfId);
    return [together(names, seconds, () => columnRows(names, options))];
  },
};

/** Estimated time of an id, in a round of both kinds of ten steps each. */
const secondsOfId = 1.5e-6;

async function columnRows(names: readonly string[], options: ColumnOptions): Promise<BenchRow[]> {
  const inputs = (["column-wise", "table-wise"] as const).map((sharding): TopologyInput => {
    const model = modelOptions.parse({
      ...{ kind: "dlrm", dense, bottom: [dim], top: [8, 1], interaction: "cat" },
      tables: Array.from({ length: options.tables }, (_, i) => {
        return { name: `T${i}`, rows: options.rows, dim, sharding };
      }),
    });
    const idsMax = new Array<number>(options.tables).fill(options.ids);
    return { model, batchSize: options.batch, slices: 8, idsMax };
  });
  const reports = await runVariants(inputs, { devices, zipf, rounds: options.rounds });
  /** The mean of the devices, in each round. */
  const msOf = (variant: number, time: string) =>
    Array.from({ length: options.rounds }, (_, round) => {
      return meanOf(
        reports.map((report) => {
          const { stepMs = [], busyMs = [], stageMs = [] } = report[variant] ?? {};
          const all = { step: stepMs[round], processor: busyMs[round], ...stageMs[round] };
          return (all as Readonly<Record<string, number>>)[time] ?? Number.NaN;
        }),
      );
    });
  return names.map((name, i) => {
    const time = times[i] ?? "";
    return rowOf({ name, unit: "ms", limitIs: "table-wise" }, msOf(0, time), msOf(1, time));
  });
}
