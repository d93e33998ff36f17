// Step probes: small jobs, of which each stresses one cost of a step, so that fits can separate the
// costs. They are timed with the random ones (task-probes.ts).

import { join } from "node:path";
import type { JobOptions, SampleTimes } from "../../../internal.ts";

/** The model and the data of a probe. */
export interface StepProbe {
  readonly tables: number;
  readonly dim: number;
  readonly idsPerBag: number;
  readonly batchSize: number;
  readonly bottom: readonly number[];
  readonly top: readonly number[];
  readonly interaction: "dot" | "cat";
  /** Slices of the batch. @default 8 */
  readonly slices?: 256 | 64;
}

const tiny: StepProbe = {
  ...{ tables: 1, dim: 16, idsPerBag: 1, batchSize: 64 },
  ...{ bottom: [16], top: [1], interaction: "cat" },
};

/** Each probe stresses one cost, except for the first one and the last three. */
export const stepProbes: readonly StepProbe[] = [
  tiny,
  { ...tiny, tables: 26 },
  { ...tiny, tables: 8, batchSize: 1024 },
  { ...tiny, tables: 4, dim: 64, batchSize: 512, bottom: [64] },
  { ...tiny, tables: 4, idsPerBag: 16, batchSize: 256 },
  { ...tiny, batchSize: 512, bottom: [64, 64, 16], top: [64, 64, 1] },
  { ...tiny, bottom: [512, 256, 16] },
  { ...tiny, bottom: [512, 256, 16], slices: 64 },
  { ...tiny, tables: 4, idsPerBag: 16, batchSize: 256, slices: 256 },
  { ...tiny, bottom: [16, 16, 16, 16], top: [16, 16, 16, 1] },
  { ...tiny, tables: 20, dim: 64, batchSize: 256, bottom: [64], interaction: "dot" },
  {
    ...{ tables: 26, dim: 16, idsPerBag: 1, batchSize: 256 },
    ...{ bottom: [64, 32, 16], top: [64, 32, 1], interaction: "dot" },
  },
  {
    ...{ tables: 12, dim: 32, idsPerBag: 3, batchSize: 512 },
    ...{ bottom: [256, 128, 32], top: [256, 128, 1], interaction: "dot" },
  },
  {
    ...{ tables: 6, dim: 16, idsPerBag: 1, batchSize: 512 },
    ...{ bottom: [32, 16], top: [64, 1], interaction: "dot" },
  },
];

/** Durations of step probes: in a pass that only compiles, and in each of the passes that count. */
export interface StepProbeTimes {
  readonly compiling: SampleTimes;
  readonly counting: SampleTimes;
}

export const stepProbeTimes: StepProbeTimes = {
  compiling: { warmUpMs: 250, warmUpSteps: 200, longestMs: 600, sampleMs: 4, samples: 0 },
  counting: { warmUpMs: 40, warmUpSteps: 50, longestMs: 200, sampleMs: 4, samples: 20 },
};

/** Samples of a probe's data: enough that the readers read various pages of a real cache. */
const samplesOfProbe = 4096;
const endlessEpochs = 100_000;

/** The job of a probe. `directory`: for the caches of its data. */
export function stepJob(probe: StepProbe, directory: string): JobOptions {
  const { tables, dim, idsPerBag, batchSize, bottom, top, interaction, slices = 8 } = probe;
  const dense = 8;
  return {
    model: {
      kind: "dlrm",
      dense,
      tables: Array.from({ length: tables }, (_, i) => ({ name: `T${i}`, rows: 10_000, dim })),
      ...{ bottom: [...bottom], top: [...top], interaction },
    },
    sharding: "as-written",
    slices,
    data: {
      ...{ kind: "synthetic", samples: samplesOfProbe, dense, batchSize, idsPerBag },
      ...{ epochs: endlessEpochs, cache: directory },
    },
    checkpoint: { directory: join(directory, "none") },
  };
}
