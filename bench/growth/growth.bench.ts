// Question: how does the cost of a step grow with the batch, the tables, the rows of a table, the
// devices and the hosts? Limit: growth in proportion, or none where none is expected.
//
// Every figure is a ratio to the same training at the base, measured in the same round. All but
// `.time` are processor time of a step, which other programs on the cores hardly change: of one
// device; for `devices`, of the busiest of the devices that share the batch, which is the shortest
// time that a step can take; for `.work`, of all of them; for `hosts`, of both processes of whole
// runs of two devices, on one host and on two, both on this machine. `.time` is wall-clock time of
// the fastest tenth of the steps: more devices than cores take turns on them.

import { availableParallelism } from "node:os";
import { Option } from "commander";
import { modelOptions } from "../../src/model/options.ts";
import { type Bench, notNegative, positiveOption } from "../bench.ts";
import { configuration } from "../configurations.ts";
import { type BenchRow, quantileOf, quantiles } from "../row.ts";
import { benchWork, runDevices } from "../step/device-threads.ts";
import type { TrainWork } from "../step/train-work.ts";
import { type HostRound, hostRounds } from "./growing-hosts.ts";

interface GrowthBenchOptions {
  readonly rounds: number;
  /** How long each training runs in a round. */
  readonly seconds: number;
}

/** The sizes that are varied, one at a time. */
interface Size {
  readonly batch: number;
  readonly tables: number;
  readonly rows: number;
  readonly devices: number;
}

const base: Size = { batch: 2048, tables: 26, rows: 10_000, devices: 1 };

/** The values of each size; the base is among them. */
const axes: { readonly [Axis in keyof Size]: readonly number[] } = {
  batch: [128, 512, 2048, 8192],
  tables: [4, 8, 13, 26, 52, 104],
  rows: [1000, 10_000, 100_000, 1_000_000],
  devices: [1, 2, 4],
};
const axisNames = Object.keys(axes) as (keyof Size)[];

/** Time to start threads, and to make tables and batches. */
const setUpSeconds = 1.5;
/** Time of the runs of a round, with their clusters. */
const hostRoundSeconds = 45;
/** The rows of hosts: two hosts over one broker, over direct links, and over a server each. */
const hostNames = [
  ["again", "growth.hosts.1"],
  ["broker", "growth.hosts.2"],
  ["direct", "growth.hosts.2.direct"],
  ["servers", "growth.hosts.2.servers"],
] as const;

export const growthBench: Bench<GrowthBenchOptions> = {
  question: "growth of a step with batch, tables, rows, devices and hosts",
  options: [
    positiveOption("--rounds <count>", "rounds over all trainings", 4),
    new Option("--seconds <seconds>", "how long each trains in a round")
      .argParser(notNegative)
      .default(1),
  ],
  measurements({ rounds, seconds }) {
    const sizes = axisNames.reduce((sum, axis) => sum + axes[axis].length, 0);
    return [
      {
        names: ["growth.base", ...axisNames.flatMap(namesOf)],
        seconds: rounds * sizes * (seconds + setUpSeconds),
        measure: (isWanted) => stepRows(rounds, seconds, isWanted),
      },
      {
        names: hostNames.flatMap(([, name]) => [name, `${name}.time`]),
        seconds: rounds * hostRoundSeconds,
        measure: () => hostRows(rounds),
      },
    ];
  },
};

function namesOf(axis: keyof Size): string[] {
  return axes[axis].flatMap((value) => {
    const name = `growth.${axis}.${value}`;
    return axis === "devices" ? [name, `${name}.work`, `${name}.time`] : [name];
  });
}

/** Milliseconds of a step: wall-clock time; processor time of the busiest device, and of all. */
interface Cost {
  readonly stepMs: number;
  readonly busiestMs: number;
  readonly workMs: number;
}

async function* stepRows(rounds: number, seconds: number, isWanted: (name: string) => boolean) {
  const baseMs: number[] = [];
  const ratios = new Map<string, number[]>();
  const note = (name: string, ratio: number) => {
    ratios.set(name, [...(ratios.get(name) ?? []), ratio]);
  };
  for (let round = 0; round < rounds; round++) {
    const one = await costOf(base, seconds);
    baseMs.push(one.workMs);
    for (const axis of axisNames) {
      for (const value of axes[axis]) {
        const name = `growth.${axis}.${value}`;
        if (!namesOf(axis).some((one) => one.startsWith(name) && isWanted(one))) continue;
        // The base is measured again too: its distance from 1 is the error of the others.
        const cost = await costOf({ ...base, [axis]: value }, seconds);
        note(name, cost.busiestMs / one.busiestMs);
        if (axis !== "devices") continue;
        note(`${name}.work`, cost.workMs / one.workMs);
        note(`${name}.time`, cost.stepMs / one.stepMs);
      }
    }
  }
  const { median: figure, spread } = quantiles(baseMs);
  const shape = `${base.batch} samples, ${base.tables} tables of ${base.rows} rows, one device`;
  yield { name: "growth.base", figure, unit: `ms of processor time a step (${shape})`, spread };
  for (const axis of axisNames) {
    for (const value of axes[axis]) {
      const name = `growth.${axis}.${value}`;
      const own = ratios.get(name);
      if (own !== undefined) yield rowOf(name, own, expectedOf(axis, value));
      const [work, time] = [ratios.get(`${name}.work`), ratios.get(`${name}.time`)];
      if (work !== undefined) yield rowOf(`${name}.work`, work, [1, "no more work"]);
      if (time !== undefined) yield rowOf(`${name}.time`, time, sharedBy(value));
    }
  }
}

/** The growth that is expected without any overhead. */
function expectedOf(axis: keyof Size, value: number): readonly [limit: number, is: string] {
  if (axis === "rows") return [1, "no growth"];
  if (axis === "devices") return [1 / value, "in proportion"];
  return [value / base[axis], "in proportion"];
}

/** The expected time of a step that devices share, limited by the number of cores. */
function sharedBy(devices: number): readonly [limit: number, is: string] {
  const cores = availableParallelism();
  if (devices <= cores) return [1 / devices, "in proportion"];
  return [1 / cores, `all of ${cores} cores, which ${devices} devices share`];
}

function rowOf(
  name: string,
  ratios: readonly number[],
  [limit, limitIs]: readonly [number, string],
): BenchRow {
  const { median: figure, spread } = quantiles(ratios);
  return { name, figure, unit: "x the base", spread, limit, limitIs, ratio: figure / limit };
}

async function costOf({ batch, tables, rows, devices }: Size, seconds: number): Promise<Cost> {
  const work = benchWork({ config: "a", batch, devices, seconds });
  const { model } = configuration("a");
  const [table] = model.tables;
  const own = modelOptions.parse({
    ...model,
    tables: Array.from({ length: tables }, (_, i) => ({ ...table, name: `T${i}`, rows })),
  });
  const input = { ...work.input, model: own, idsMax: own.tables.map(() => 1) };
  const reports = await runDevices({ ...work, input, batches: 4 } satisfies TrainWork);
  const stepMs = quantileOf(reports[0]?.stepMs ?? [])(0.1);
  const busyMs = reports.map((report) => report.busyMs[0] ?? stepMs);
  const workMs = busyMs.reduce((sum, ms) => sum + ms, 0);
  return { stepMs, busiestMs: Math.max(...busyMs), workMs };
}

async function* hostRows(rounds: number) {
  const all: HostRound[] = [];
  for await (const round of hostRounds(rounds)) all.push(round);
  for (const what of ["workMs", "stepMs"] as const) {
    const suffix = what === "stepMs" ? ".time" : "";
    for (const [way, name] of hostNames) {
      const ratios = all.map((one) => one[way][what] / one.one[what]);
      yield rowOf(`${name}${suffix}`, ratios, [
        1,
        way === "again" ? "the same, again" : "one host",
      ]);
    }
  }
}
