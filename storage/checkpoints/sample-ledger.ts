// The sample ledger: how often each sample was trained in the committed part of a run. It is
// computed only from the generation records and manifests in the checkpoint store, not from any
// actor's memory.
//
// A generation's record contains the step where it began, and each of its manifests the step it had
// reached. So each manifest of the chain represents a stretch of steps that one generation trained
// once: from its previous manifest of the same generation, or from the generation's begin. If the
// stretches are contiguous from step 0, every sample of an epoch was trained once.
//
//   generation 1   0 ── 10 ── 20         its steps after 20 are in no manifest of the chain:
//   generation 2              20 ── 30   the restore discarded them

import { dirname } from "node:path";
import { recordedContents } from "../../src/data/contents.ts";
import { cutOf, EpochOrder, type EpochOrderOptions } from "../../src/data/sample-order.ts";
import type { JobSpec } from "../../src/job/job.ts";
import { type Disk, realDisk } from "../../src/ports/disk.ts";
import { placesOf, type Schedule } from "../../src/training/loop/schedule.ts";
import type { CheckpointStore, Manifest } from "./store/checkpoint-store.ts";
import { openExistingStore } from "./store/open-store.ts";
import { parseCheckpointName } from "./store/store-paths.ts";

/** Steps `from` to `to` - 1, trained by one generation and committed. */
export interface Stretch {
  readonly generation: number;
  readonly from: number;
  readonly to: number;
}

/** Samples of one epoch, by how often they were trained. `twice`: more than once. */
export interface EpochLedger {
  readonly samples: number;
  readonly once: number;
  readonly never: number;
  readonly twice: number;
}

/**
 * The stretches of a run's checkpoint directory, oldest first. All checkpoints of the run must
 * still exist (`checkpoint.keep`): a collected one has no stretch, and its samples count as never
 * trained. @throws CheckpointMissingError, CheckpointCorruptError
 */
export function stretchesOf(directory: string, disk: Disk = realDisk): Stretch[] {
  const store = openExistingStore(directory, disk);
  const oldestFirst = [...store.list().manifests].reverse();
  return oldestFirst.map((manifest, i) => {
    const { generation, cut } = manifest;
    const before = oldestFirst[i - 1];
    const isSame = before?.generation === generation;
    const from = isSame ? before.cut : beginOf(store, manifest);
    return { generation, from, to: cut };
  });
}

/**
 * The step at which a manifest's generation began, for the generation's first manifest. If the
 * generation's record is damaged, the cut of the manifest's `parent` is used.
 */
function beginOf(store: CheckpointStore, { generation, parent }: Manifest): number {
  const ofParent = () => parseCheckpointName(dirname(parent?.file ?? ""))?.cut;
  return store.beginOf(generation) ?? ofParent() ?? 0;
}

/** How often each step of a schedule was trained: one number per step, 255 at most. */
export function timesTrained(stretches: readonly Stretch[], { steps }: Schedule): Uint8Array {
  const times = new Uint8Array(steps);
  for (const { from, to } of stretches) {
    for (let step = from; step < Math.min(to, steps); step++) {
      times[step] = Math.min(255, (times[step] ?? 0) + 1);
    }
  }
  return times;
}

/**
 * The sample order of a run, from its job and the data recorded in a checkpoint's `metrics`.
 * @throws InputUnusableError if the checkpoint only identifies the splits (data/split-starts.ts)
 */
export function epochOrderOf(
  { seed, slices, data }: Pick<JobSpec, "seed" | "slices" | "data">,
  metrics: unknown,
): EpochOrderOptions {
  return { seed, shuffle: data.shuffle, split: cutOf(recordedContents(metrics) ?? {}, slices) };
}

/** How often the samples of each epoch were trained, in the order of the job. */
export function sampleLedger(
  stretches: readonly Stretch[],
  schedule: Schedule,
  options: EpochOrderOptions,
): EpochLedger[] {
  const { samples, steps, stepsPerEpoch, begin } = schedule;
  const order = new EpochOrder(options, schedule);
  const times = timesTrained(stretches, schedule);
  const epochs = Array.from(
    { length: (steps - begin) / stepsPerEpoch },
    () => new Uint8Array(samples),
  );
  for (let step = begin; step < steps; step++) {
    const { epoch, first, count } = placesOf(schedule, step);
    const indices = new Float64Array(count);
    order.fill(indices, epoch, first);
    const trained = epochs[epoch];
    if (trained === undefined) continue;
    for (const sample of indices) trained[sample] = (trained[sample] ?? 0) + (times[step] ?? 0);
  }
  return epochs.map((trained) => {
    const never = trained.filter((count) => count === 0).length;
    const once = trained.filter((count) => count === 1).length;
    return { samples, once, never, twice: samples - once - never };
  });
}
