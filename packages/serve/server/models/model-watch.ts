// Polls the directory of a served model for updates: a newer checkpoint, a delta file, or a changed
// calibration. A model in one file is newer if the file was replaced. An object store is not
// polled: each look would wait for the network on the thread that serves.
//
// Invariants
//   W1. A file or checkpoint that was refused is not retried until it, or the served version,
//       changes.
//   W2. The checkpoint that applied deltas started from is not loaded again.
//   W3. If no name and no time in the directory has changed, no file is read.

import { dirname, join } from "node:path";
import {
  calibrationPath,
  type Disk,
  isModelFile,
  isObjectAddress,
  manifestName,
  openCheckpoint,
  pathsOf,
} from "../../../../internal.ts";
import type { ServedVersion } from "../../model/served-model.ts";

/** File name suffix of deltas. */
export const deltaSuffix = ".delta";

/** An update to load. `sign` identifies its state. */
export type ModelUpdate =
  | { readonly kind: "checkpoint"; readonly manifest: string; readonly sign: string }
  | { readonly kind: "delta"; readonly path: string; readonly sign: string }
  | { readonly kind: "calibration"; readonly sign: string };

/** Polls after which an update that failed because of the machine is retried. */
const retryPolls = 10;

export class ModelWatch {
  readonly #directory: string;
  readonly #manifest: string | undefined;
  readonly #disk: Disk;
  #seen = "";
  #polls = 0;
  #version = "";
  /** Manifest of the checkpoint that was loaded last. W2 */
  #base = "";
  /** Tried updates by sign: the poll from which on each may be retried. W1 */
  readonly #tried = new Map<string, number>();
  /** Times of calibrations by path: all before a version is loaded, then that of the version. */
  #calibrations: ReadonlyMap<string, number>;

  constructor(directory: string, manifest: string | undefined, disk: Disk) {
    this.#directory = directory;
    this.#manifest = manifest;
    this.#disk = disk;
    this.#calibrations = this.#allCalibrations();
  }

  /**
   * The next update to load, each returned once; undefined: none. Throws errors of reading the
   * directory, also once for each state of the directory.
   */
  poll(version: ServedVersion): ModelUpdate | undefined {
    if (isObjectAddress(this.#directory)) return undefined;
    this.#polls++;
    if (this.#version !== version.digest) this.#tried.clear();
    this.#version = version.digest;
    const update =
      this.#newerCheckpoint(version) ??
      this.#deltas().find((one) => this.#isDue(one)) ??
      this.#newerCalibration(version);
    if (update === undefined) return undefined;
    this.#tried.set(update.sign, Number.POSITIVE_INFINITY);
    if (update.kind !== "calibration") this.#calibrations = this.#allCalibrations();
    return update;
  }

  /** Schedules a retry although nothing changed: the machine may have been at fault. */
  retry({ sign }: ModelUpdate): void {
    this.#tried.set(sign, this.#polls + retryPolls);
    this.#seen = "";
  }

  #isDue({ sign }: ModelUpdate): boolean {
    return (this.#tried.get(sign) ?? 0) <= this.#polls;
  }

  #newerCheckpoint(version: ServedVersion): ModelUpdate | undefined {
    const sign = this.#checkpoints();
    if (sign === this.#seen) return undefined; // W3
    this.#seen = sign;
    const { manifest } = openCheckpoint(this.#directory, this.#manifest, this.#disk);
    const { sha256, modelDigest } = manifest;
    if (`sha256:${modelDigest}` === version.digest) this.#base = sha256;
    if (sha256 === this.#base) return undefined;
    // W1: a replaced file may have the same manifest, without the damage of the former file.
    const signed = this.#isFile() ? `${sha256} ${sign}` : sha256;
    const update: ModelUpdate = { kind: "checkpoint", manifest: sha256, sign: signed };
    if (this.#isDue(update)) return update;
    if (Number.isFinite(this.#tried.get(signed))) this.#seen = ""; // Its retry is still due.
    return undefined;
  }

  /** A calibration that was stored, replaced or removed since the version began to load. */
  #newerCalibration({ digest }: ServedVersion): ModelUpdate | undefined {
    const isFile = this.#isFile();
    const hex = digest.replace(/^sha256:/, "");
    const path = isFile ? this.#directory : calibrationPath(this.#directory, hex);
    const at = this.#timeOf(path);
    const isOther = at !== (this.#calibrations.get(path) ?? 0);
    this.#calibrations = new Map([[path, at]]);
    if (!isOther || (isFile && this.#digestInFile() !== digest)) return undefined;
    return { kind: "calibration", sign: `calibration ${digest} ${at}` };
  }

  #allCalibrations(): Map<string, number> {
    const timed = (path: string) => [path, this.#timeOf(path)] as const;
    if (isObjectAddress(this.#directory)) return new Map();
    if (this.#isFile()) return new Map([timed(this.#directory)]);
    const folder = dirname(calibrationPath(this.#directory, ""));
    return new Map(this.#disk.list(folder).map((name) => timed(join(folder, name))));
  }

  /** Digest of the model in the file, which may have been replaced or damaged. */
  #digestInFile(): string {
    const { manifest } = openCheckpoint(this.#directory, this.#manifest, this.#disk);
    return `sha256:${manifest.modelDigest}`;
  }

  /** Names of checkpoints with the times of their manifests; 0: not committed yet. */
  #checkpoints(): string {
    if (this.#isFile()) return `${this.#timeOf(this.#directory)}`;
    const { checkpoints } = pathsOf(this.#directory);
    const names = this.#disk.list(checkpoints).map((name) => {
      return `${name} ${this.#timeOf(join(checkpoints, name, manifestName))}`;
    });
    return names.join("\n");
  }

  /** Delta files, in the order of their names. */
  #deltas(): ModelUpdate[] {
    if (this.#isFile()) return [];
    const names = this.#disk.list(this.#directory).filter((name) => name.endsWith(deltaSuffix));
    return names.map((name) => {
      const path = join(this.#directory, name);
      return { kind: "delta", path, sign: `${path} ${this.#timeOf(path)}` };
    });
  }

  #isFile(): boolean {
    return isModelFile(this.#directory, this.#disk);
  }

  #timeOf(path: string): number {
    try {
      return this.#disk.modifiedMs(path);
    } catch {
      return 0; // Deleted meanwhile: the next poll sees it.
    }
  }
}
