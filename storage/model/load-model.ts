// Loads a trained model into memory: selects the checkpoint and the arithmetic, restores all rows.

import { weightedOf } from "../../src/data/text/match-features.ts";
import { ArithmeticMismatchError } from "../../src/errors/errors.ts";
import type { Kernels } from "../../src/kernels/contract/kernels.ts";
import { openKernels } from "../../src/kernels/index.ts";
import { shapesOf } from "../../src/model/features.ts";
import { type Disk, realDisk } from "../../src/ports/disk.ts";
import { partsNeeded, restorePart } from "../../src/training/checkpoint/parts.ts";
import { createSoloDevice } from "../../src/training/loop/inference-device.ts";
import { openModel } from "../checkpoints/open-checkpoint.ts";
import { type CalibrationChoice, calibrationsOf } from "./find-calibration.ts";
import { Model } from "./model.ts";

/** Options of `loadModel`. */
export interface LoadOptions {
  /**
   * Hash of the checkpoint's manifest, as a run's result names it, or a prefix of the hash; or
   * `best`, `last`.
   * @default the best checkpoint if the job has early stopping, else the newest
   */
  readonly manifest?: string;
  /**
   * `same`: the arithmetic of training, so that predictions equal the run's evaluations bit for
   * bit. `auto`: the fastest that this process has. `native`, `reference`: this one. With another
   * arithmetic than training's, predictions may differ in their last bits. @default "same"
   */
  readonly arithmetic?: "same" | "auto" | "native" | "reference";
  /**
   * Whether `predict` applies the calibration that `calibrateModel` stored with the model.
   * `evaluate` never does. @default "none"
   */
  readonly calibration?: CalibrationChoice;
  /** The file system. @default the machine's own */
  readonly disk?: Disk;
}

/**
 * Loads a whole model into memory from a checkpoint directory, written by a run or by `Model.save`,
 * or from a `.osiris` file written by `exportModel`.
 * @throws CheckpointMissingError, CheckpointCorruptError
 * @throws ArithmeticMismatchError where this process does not have the arithmetic of training
 */
export async function loadModel(directory: string, options: LoadOptions = {}): Promise<Model> {
  const { disk = realDisk, arithmetic = "same" } = options;
  const checkpoint = openModel(directory, options.manifest, disk);
  const { store, job, manifest } = checkpoint;
  const calibrations = calibrationsOf(checkpoint, options.calibration ?? "none");
  const kernels = kernelsOf(arithmetic, manifest.arithmetic, directory);
  const { slices, optimizer, seed } = job;
  const tables = job.model.tables.map((table) => ({ ...table, tier: "memory" as const }));
  const model = { ...job.model, tables };
  const shapes = shapesOf(job.model);
  const idsMax = shapes.map(() => 1);
  const weighted = weightedOf(job.data, shapes);
  // The device only holds the state; it runs no batches.
  const input = { model, slices, idsMax, weighted, batchSize: 1 };
  const device = createSoloDevice({ input, recipe: { optimizer, seed }, kernels });
  device.trained.steps = manifest.cut;
  const names = manifest.parts.map(({ name }) => name);
  for (const name of partsNeeded(device, names)) {
    const files = store.readFiles(manifest, name);
    await restorePart(device, name, files, new Set(), store.statedDigests === undefined);
  }
  return new Model({ device, job, manifest, store, disk, calibrations });
}

/** Opens the chosen kernels. @throws ArithmeticMismatchError */
export function kernelsOf(
  choice: NonNullable<LoadOptions["arithmetic"]>,
  trained: string,
  directory: string,
): Kernels {
  if (choice !== "same") return openKernels(choice);
  const fastest = openKernels("auto");
  if (fastest.arithmetic === trained) return fastest;
  const reference = openKernels("reference");
  if (reference.arithmetic === trained) return reference;
  throw new ArithmeticMismatchError(trained, fastest.arithmetic, directory);
}
