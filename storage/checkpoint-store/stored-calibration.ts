// The calibration that is stored with a model (storage/model/calibration.ts says what it is):
// sealed JSON in `calibrations/DIGEST.json` of a checkpoint directory, or in the footer of a model
// file. It says the digest of the model that it was fitted to, and is refused for any other one.

import { dirname, join } from "node:path";
import { z } from "zod";
import { CheckpointCorruptError } from "../../src/errors/errors.ts";
import type { Disk } from "../../src/ports/disk.ts";
import { makeDurableDirectory, onDisk, readWhole, replaceDurably } from "../disk/durable-files.ts";
import { seal, unseal } from "../disk/sealed-json.ts";

const count = z.int().nonnegative();

/** How logits of one label become calibrated ones: `scale * logit + offset`. */
const calibrationSchema = z.object({
  scale: z.number(),
  offset: z.number(),
  /** Samples that it was fitted to, and how many of them have the label 1. */
  samples: count,
  positives: count,
  /** Mean logistic loss of these samples, as the model predicts them and calibrated. */
  logLoss: z.number(),
  calibratedLogLoss: z.number(),
});

/** What is stored with a model. */
export const storedCalibrationSchema = z.object({
  version: z.literal(1),
  /** Of the model that it was fitted to: `sha256:…`. */
  digest: z.string(),
  /** Samples that it was fitted to, for people: `held-out`, or the names of files. */
  by: z.string(),
  /** Of each label of the job; null: the label is a number. */
  tasks: z.array(z.object({ task: z.string(), ...calibrationSchema.shape }).nullable()),
});

export type Calibration = Readonly<z.output<typeof calibrationSchema>>;
export type StoredCalibration = Readonly<z.output<typeof storedCalibrationSchema>>;

/** Where a directory has the calibration of the model with a digest, in hexadecimal. */
export function calibrationPath(directory: string, modelDigest: string): string {
  return join(directory, "calibrations", `${modelDigest}.json`);
}

/**
 * The calibration of a model in a directory; undefined: there is none.
 * @throws CheckpointCorruptError where it is damaged, or of another model
 */
export function readCalibration(
  disk: Disk,
  directory: string,
  modelDigest: string,
): StoredCalibration | undefined {
  const path = calibrationPath(directory, modelDigest);
  if (!disk.exists(path)) return undefined;
  const value = unseal(
    onDisk("read", path, () => readWhole(disk, path)),
    path,
  );
  return checkedCalibration(value, modelDigest, path);
}

/** Stores the calibration of a model in a directory, or removes it. @throws StoreFailedError */
export function writeCalibration(
  disk: Disk,
  directory: string,
  modelDigest: string,
  calibration: StoredCalibration | undefined,
): void {
  const path = calibrationPath(directory, modelDigest);
  onDisk("write", path, () => {
    if (calibration === undefined) {
      disk.remove(path);
      if (disk.exists(dirname(path))) disk.syncDirectory(dirname(path));
      return;
    }
    makeDurableDirectory(disk, dirname(path));
    replaceDurably(disk, path, new TextEncoder().encode(seal(calibration).text), disk.writer);
  });
}

/** @throws CheckpointCorruptError where it is none, or of another model than `modelDigest` */
export function checkedCalibration(
  value: unknown,
  modelDigest: string,
  path: string,
): StoredCalibration {
  const { data, error } = storedCalibrationSchema.safeParse(value);
  const mend = "calibrate the model again (`osiris calibrate`), or remove it";
  if (data === undefined) {
    const [issue] = error.issues;
    const what = `its calibration has ${issue?.path.join(".")}: ${issue?.message}`;
    throw new CheckpointCorruptError(path, `${what}; ${mend}`);
  }
  if (data.digest === `sha256:${modelDigest}`) return data;
  const reason = `it calibrates the model ${data.digest}, not sha256:${modelDigest}`;
  throw new CheckpointCorruptError(path, `${reason}; ${mend}`);
}
