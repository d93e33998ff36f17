// Storage of a model's calibration (explained in storage/model/calibration.ts): sealed JSON in
// `calibrations/DIGEST.json` of a checkpoint store, or in the entry `calibration.json` of a
// model file. It contains the digest of the model that it was fitted to, and is refused for any
// other model.

import { z } from "zod";
import { CheckpointCorruptError } from "../../../src/errors/errors.ts";
import { onDisk } from "../../disk/durable-files.ts";
import { seal, unseal } from "../../disk/sealed-json.ts";
import { below } from "./store-paths.ts";

const count = z.int().nonnegative();

/** Platt scaling of one label's logits: calibrated logit = `scale * logit + offset`. */
const calibrationSchema = z.object({
  scale: z.number(),
  offset: z.number(),
  /** Number of samples it was fitted to, and how many of them have the label 1. */
  samples: count,
  positives: count,
  /** Mean logistic loss of these samples, without and with the calibration. */
  logLoss: z.number(),
  calibratedLogLoss: z.number(),
});

/** The stored record: one calibration per label of the model. */
export const storedCalibrationSchema = z.object({
  version: z.literal(1),
  /** Digest of the model that it was fitted to: `sha256:…`. */
  digest: z.string(),
  /** Source of the samples it was fitted to, for people: `held-out`, or the names of files. */
  by: z.string(),
  /** One entry per label of the job; null: the label is a number (regression). */
  tasks: z.array(z.object({ task: z.string(), ...calibrationSchema.shape }).nullable()),
});

export type Calibration = Readonly<z.output<typeof calibrationSchema>>;
export type StoredCalibration = Readonly<z.output<typeof storedCalibrationSchema>>;

/** Where a store keeps small files (place.ts). */
interface SmallFiles {
  readonly address: string;
  size(path: string): number | undefined;
  read(path: string): Uint8Array;
  write(path: string, bytes: Uint8Array | undefined): void;
}

/** Path of the calibration of a model, by its digest in hexadecimal. */
export function calibrationPath(directory: string, modelDigest: string): string {
  return below(directory, "calibrations", `${modelDigest}.json`);
}

/**
 * The calibration of a model in a store; undefined: there is none.
 * @throws CheckpointCorruptError where it is damaged, or of another model
 */
export function readCalibration(
  place: SmallFiles,
  modelDigest: string,
): StoredCalibration | undefined {
  const path = calibrationPath(place.address, modelDigest);
  const bytes = onDisk("read", path, () =>
    place.size(path) === undefined ? undefined : place.read(path),
  );
  return bytes && checkedCalibration(unseal(bytes, path), modelDigest, path);
}

/** Stores the calibration of a model in a store, or removes it. @throws StoreFailedError */
export function writeCalibration(
  place: SmallFiles,
  modelDigest: string,
  calibration: StoredCalibration | undefined,
): void {
  const path = calibrationPath(place.address, modelDigest);
  const bytes = calibration && new TextEncoder().encode(seal(calibration).text);
  onDisk("write", path, () => place.write(path, bytes));
}

/** @throws CheckpointCorruptError where it is malformed, or of another model than `modelDigest` */
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
