// Data and model of `osiris demo`: generated data with a known best reachable AUC, or the user's
// Criteo file; and a DLRM of a size that suits the kernels, native or TypeScript.

import { statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { constantsOfRun } from "../../actors/threads/kept-constants.ts";
import {
  adagrad,
  criteo,
  type DataOptions,
  dlrm,
  type JobOptions,
  tryJob,
  writeSyntheticTsv,
} from "../../internal.ts";
import { areKnown } from "../../src/planner/cost/constants.ts";
import { criteoData } from "./criteo-file.ts";
import { count } from "./format.ts";
import { planWith } from "./machine.ts";

/** The data of a demonstration. */
export interface DemoData {
  readonly data: DataOptions;
  /** Best reachable AUC, of generated data. */
  readonly bestAuc: number | undefined;
  /** Steps between checkpoints. */
  readonly everySteps: number;
  /** Whether a run on the data takes minutes. */
  readonly isLarge: boolean;
}

/** Generated samples and batch size: some seconds a run on two cores. */
const native = { samples: 100_000, batchSize: 256 } as const;
const reference = { samples: 30_000, batchSize: 128 } as const;
/** Popular ids, as in Criteo's logs, so that seconds of training meet them often enough. */
const generated = { rows: 10_000, zipf: 1.7, seed: 1 } as const;

/** Checkpoints of a run; the model is evaluated at every second one. */
const checkpoints = 8;

/** Time between two lines of progress. */
const progressMs = 2000;

/** Files beyond this many bytes are trained on in larger batches, with fewer checkpoints. */
const largeBytes = 64 * 1024 * 1024;

/**
 * The data: `file`, or a file generated into `directory`. `isSlow` where there are no native
 * kernels.
 * @throws InputUnusableError where the file is not a Criteo file
 */
export async function demoData(options: {
  readonly file: string | undefined;
  readonly isSlow: boolean;
  readonly directory: string;
  readonly say: (line: string) => void;
}): Promise<DemoData> {
  const { file, isSlow, directory, say } = options;
  const cache = join(directory, "cache");
  if (file !== undefined) {
    const isLarge = (statSync(file, { throwIfNoEntry: false })?.size ?? 0) > largeBytes;
    const data = await criteoData(file, { batchSize: isLarge ? 2048 : 128, cache });
    return { data, bestAuc: undefined, everySteps: isLarge ? 500 : 10, isLarge };
  }
  const { samples, batchSize } = isSlow ? reference : native;
  const path = join(directory, "train.tsv");
  const size = isSlow ? ", a third of the usual size, as the kernels are slow" : "";
  say(`Making Criteo-like data: ${count(samples)} samples${size} ...`);
  let reportedAtMs = performance.now();
  const onProgress = (written: number) => {
    if (performance.now() - reportedAtMs < progressMs) return;
    reportedAtMs = performance.now();
    say(`  ${count(written)} of ${count(samples)} samples`);
  };
  const { bestAuc } = writeSyntheticTsv({ ...generated, samples, onProgress }, path);
  const data = criteo.tsv(path, { batchSize, cache });
  return {
    data,
    bestAuc,
    everySteps: Math.ceil(samples / batchSize / checkpoints),
    isLarge: false,
  };
}

/**
 * Where this machine has no measured constants, trains the job for a second, and scales the
 * default constants by the result, so that runs predict their steps. A measurement of the machine
 * takes twenty seconds. With a large file there is no trial: it would read the whole file first,
 * without showing its progress.
 */
export async function planByTrial(
  demo: DemoData,
  devices: number,
  directory: string,
  say: (line: string) => void,
): Promise<void> {
  const constants = constantsOfRun("auto");
  if (demo.isLarge || areKnown(constants)) return;
  say("Trying some steps, to predict how long one takes ...");
  const path = join(directory, "machine.json");
  const tried = await tryJob(demoJob(demo, "trial", directory), { devices, constants });
  writeFileSync(path, JSON.stringify(tried));
  planWith(path);
}

/** The job, the same for both runs except for its name and checkpoint directory. */
export function demoJob(demo: DemoData, name: string, directory: string): JobOptions {
  const { data, everySteps } = demo;
  return {
    name,
    model: dlrm({
      dense: 13,
      tables: criteo.tables({ dim: 16, initScale: 0.05 }),
      bottom: [64, 16],
      top: [128, 64, 1],
    }),
    data,
    optimizer: {
      dense: adagrad({ learningRate: 0.02 }),
      sparse: adagrad({ learningRate: 0.05 }),
    },
    evaluation: { fraction: 0.1, everySteps: 2 * everySteps },
    checkpoint: { directory: join(directory, name), everySteps },
  };
}
