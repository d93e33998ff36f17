// Question: how much of a step does a device's thread spend outside the addon, and how often does
// it call the addon? There is one device, so that no step waits for others. Limit of the time: the
// whole step.

import { Option } from "commander";
import { createNative } from "../../src/kernels/native/native.ts";
import { type Addon, loadAddon } from "../../src/ports/addon.ts";
import { trainStep } from "../../src/training/step/step.ts";
import { topologyOf } from "../../src/training/topology/topology.ts";
import { type Bench, positive, positiveOption, together } from "../bench.ts";
import { type ConfigurationName, configurationNames } from "../configurations.ts";
import { type BenchRow, quantiles } from "../row.ts";
import { benchWork } from "./device-threads.ts";
import { startSoloDevice } from "./solo-device.ts";
import { makeBatch } from "./train-work.ts";

interface JavascriptBenchOptions {
  readonly config: ConfigurationName;
  readonly batch: readonly number[];
  readonly steps: number;
}

/** Steps until V8 has compiled what they run. */
const warmUpSteps = 300;

export const javascriptBench: Bench<JavascriptBenchOptions> = {
  question: "time of a step outside the addon, and its calls of the addon, on one device",
  options: [
    new Option("--config <name>", "configuration, see bench/README.md")
      .choices(configurationNames)
      .default("a"),
    new Option("--batch <samples...>", "samples of a batch")
      .argParser((text, all: readonly number[] = []) => [...all, positive(text)])
      .default(undefined, "64 128"),
    positiveOption("--steps <count>", "measured steps", 500),
  ],
  measurements({ config, batch = [64, 128], steps }) {
    return batch.map((samples) => {
      const names = [`javascript.${config}.${samples}`, `calls.${config}.${samples}`] as const;
      const seconds = 3 + (steps + warmUpSteps) * samples * secondsOfSample[config];
      return together(names, seconds, () => rowsOf(names, config, samples, steps));
    });
  },
};

const secondsOfSample = { a: 9e-5, b: 1.5e-4, c: 5e-4, d: 1.5e-4, w: 1.5e-4 } as const;

async function rowsOf(
  [javascript, calls]: readonly [string, string],
  config: ConfigurationName,
  batch: number,
  steps: number,
): Promise<BenchRow[]> {
  const { input, recipe, batches } = benchWork({ config, batch, devices: 1, seconds: 0 });
  const { addon, taken } = countingAddon();
  const device = startSoloDevice(input, recipe, createNative(addon));
  const topology = topologyOf(input, 1);
  const pool = Array.from({ length: batches }, (_, i) => makeBatch(topology, 0, i));
  const [outsideUs, stepUs]: [number[], number[]] = [[], []];
  let count = 0;
  for (let step = 0; step < warmUpSteps + steps; step++) {
    const own = pool[step % batches];
    if (own === undefined) throw new RangeError("The pool is empty");
    taken();
    const beganMs = performance.now();
    await trainStep(device, own, step, -1);
    const ms = performance.now() - beganMs;
    const inside = taken();
    if (step < warmUpSteps) continue;
    stepUs.push(1000 * ms);
    outsideUs.push(1000 * (ms - inside.ms));
    count += inside.calls;
  }
  const { median: limit } = quantiles(stepUs);
  const { median: figure, spread } = quantiles(outsideUs);
  const each = count / steps;
  const stepLimit = { limit, limitIs: "a step", ratio: figure / limit };
  return [
    { name: javascript, unit: "us", figure, spread, ...stepLimit },
    { name: calls, figure: each, unit: "calls/step", spread: [each, each] },
  ];
}

/** The addon with timed calls. `taken` returns their time and number since it was called last. */
function countingAddon() {
  const loaded = loadAddon();
  if (loaded === undefined) throw new Error("The addon is not built; run `osiris build-native`");
  let [ms, calls] = [0, 0];
  const timed = Object.entries(loaded).map(([name, run]) => [
    name,
    (...given: unknown[]) => {
      const beganMs = performance.now();
      const answer = run(...given);
      ms += performance.now() - beganMs;
      calls++;
      return answer;
    },
  ]);
  return {
    addon: Object.fromEntries(timed) as Addon,
    taken() {
      const own = { ms, calls };
      [ms, calls] = [0, 0];
      return own;
    },
  };
}
