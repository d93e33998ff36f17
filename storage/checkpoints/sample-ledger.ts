// The sample ledger: how often each sample was trained in what became of a run, read from the
// records that its generations left in the checkpoint store, and from nothing that they remember.
//
// A generation begins where its record says, and each of its manifests says how far it then was.
// So every manifest of the chain stands for a stretch of steps that one generation trained once,
// from the manifest before it of the same generation, or from where the generation began. Stretches
// that meet end to end from step 0 mean: every sample of a pass once.
//
//   generation 1   0 ── 10 ── 20         what came after 20 is in no manifest of the chain:
//   generation 2              20 ── 30   it was thrown away

import { dirname } from "node:path";
import { fillOrder } from "../../src/data/sample-order.ts";
import { type Disk, realDisk } from "../../src/ports/disk.ts";
import { placesOf, type Schedule } from "../../src/training/loop/schedule.ts";
import type { Manifest } from "../checkpoint-store/checkpoint-store.ts";
import { openExistingStore } from "../checkpoint-store/directory-checkpoint-store.ts";
import { type Place, readGeneration } from "../checkpoint-store/manifest-chain.ts";
import { parseCheckpointName, pathsOf } from "../checkpoint-store/store-paths.ts";

/** Steps `from` .. `to` - 1, trained by one generation, in what was committed. */
export interface Stretch {
  readonly generation: number;
  readonly from: number;
  readonly to: number;
}

/** How often what a pass has was trained. */
export interface PassLedger {
  readonly samples: number;
  readonly once: number;
  readonly never: number;
  readonly twice: number;
}

/**
 * The stretches of a run's checkpoint directory, oldest first. All checkpoints of the run must
 * still be there (`checkpoint.keep`): what was collected has no stretch, and counts as never.
 * @throws CheckpointMissingError, CheckpointCorruptError
 */
export function stretchesOf(directory: string, disk: Disk = realDisk): Stretch[] {
  const { manifests } = openExistingStore(directory, disk).list();
  const oldestFirst = [...manifests].reverse();
  return oldestFirst.map((manifest, i) => {
    const { generation, cut } = manifest;
    const before = oldestFirst[i - 1];
    const isSame = before?.generation === generation;
    const from = isSame ? before.cut : beginOf(directory, disk, manifest);
    return { generation, from, to: cut };
  });
}

/**
 * The step at which the generation of its first manifest began. Where a disk has damaged the
 * generation's record, the manifest's own word counts: it names the one it goes on from.
 */
function beginOf(directory: string, disk: Disk, manifest: Manifest): number {
  const { generation, jobIdentity, parent } = manifest;
  const place: Place = { disk, paths: pathsOf(directory), jobIdentity };
  const record = readGeneration(place, generation);
  if (record !== undefined) return record.from?.cut ?? 0;
  return parseCheckpointName(dirname(parent?.file ?? ""))?.cut ?? 0;
}

/** How often each step of a schedule was trained: one number for each, 255 at most. */
export function timesTrained(stretches: readonly Stretch[], { steps }: Schedule): Uint8Array {
  const times = new Uint8Array(steps);
  for (const { from, to } of stretches) {
    for (let step = from; step < Math.min(to, steps); step++) {
      times[step] = Math.min(255, (times[step] ?? 0) + 1);
    }
  }
  return times;
}

/** How often the samples of each pass were trained. `seed` and `shuffle` are those of the job. */
export function sampleLedger(
  stretches: readonly Stretch[],
  schedule: Schedule,
  order: { readonly seed: number; readonly shuffle: boolean },
): PassLedger[] {
  const { samples, steps, stepsPerPass } = schedule;
  const times = timesTrained(stretches, schedule);
  const passes = Array.from({ length: steps / stepsPerPass }, () => new Uint8Array(samples));
  for (let step = 0; step < steps; step++) {
    const { pass, first, count } = placesOf(schedule, step);
    const indices = new Uint32Array(count);
    fillOrder(indices, { ...order, pass, samples, first });
    const trained = passes[pass];
    if (trained === undefined) continue;
    for (const sample of indices) trained[sample] = (trained[sample] ?? 0) + (times[step] ?? 0);
  }
  return passes.map((trained) => {
    const never = trained.filter((count) => count === 0).length;
    const once = trained.filter((count) => count === 1).length;
    return { samples, once, never, twice: samples - once - never };
  });
}
