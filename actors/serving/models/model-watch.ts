// Looks at the directory of a served model for what is newer than its version: a checkpoint, the
// file of a delta, or another calibration. A model in one file is newer when another file has its
// place.
//
// Invariants
//   W1. A file or a checkpoint that was refused is not tried again until it, or the version that
//       answers, changes.
//   W2. The checkpoint that deltas have led away from is not loaded again.
//   W3. Nothing is read of a directory in which no name and no time has changed.

import { join } from "node:path";
import type { Disk } from "../../../src/ports/disk.ts";
import { openCheckpoint } from "../../../storage/checkpoints/open-checkpoint.ts";
import { isModelFile } from "../../../storage/checkpoints/store/file-checkpoint-store.ts";
import { manifestName, pathsOf } from "../../../storage/checkpoints/store/store-paths.ts";
import { calibrationPath } from "../../../storage/checkpoints/store/stored-calibration.ts";
import type { ServedVersion } from "./engine.ts";

/** How the file of a delta is named. */
export const deltaSuffix = ".delta";

/** Something to load. */
export type Newer =
  | { readonly kind: "checkpoint"; readonly manifest: string; readonly sign: string }
  | { readonly kind: "delta"; readonly path: string; readonly sign: string }
  | { readonly kind: "calibration"; readonly sign: string };

/** Looks until what failed by the machine's fault is tried again. */
const retryLooks = 10;

/** As described above, for one directory. */
export class ModelWatch {
  readonly #directory: string;
  readonly #manifest: string | undefined;
  readonly #disk: Disk;
  #seen = "";
  #looks = 0;
  #version = "";
  /** Manifest of the checkpoint that was loaded last. W2 */
  #base = "";
  /** Of what was tried, by its sign: the look from which on it may be tried again. W1 */
  readonly #tried = new Map<string, number>();
  /** The calibration that was looked at last, and of which version. */
  #calibration: { readonly digest: string; readonly at: number } | undefined;

  constructor(directory: string, manifest: string | undefined, disk: Disk) {
    this.#directory = directory;
    this.#manifest = manifest;
    this.#disk = disk;
  }

  /**
   * What is to be loaded next, once each; undefined: nothing. Throws what the directory's own
   * reading throws, also once for each state of the directory.
   */
  look(version: ServedVersion): Newer | undefined {
    this.#looks++;
    if (this.#version !== version.digest) this.#tried.clear();
    this.#version = version.digest;
    const newer =
      this.#newerCheckpoint(version) ??
      this.#deltas().find((one) => this.#isDue(one)) ??
      this.#newerCalibration(version);
    if (newer !== undefined) this.#tried.set(newer.sign, Number.POSITIVE_INFINITY);
    return newer;
  }

  /** Has it tried again after a while, though nothing changed: the machine may have failed. */
  retry({ sign }: Newer): void {
    this.#tried.set(sign, this.#looks + retryLooks);
    this.#seen = "";
  }

  #isDue({ sign }: Newer): boolean {
    return (this.#tried.get(sign) ?? 0) <= this.#looks;
  }

  #newerCheckpoint(version: ServedVersion): Newer | undefined {
    const sign = this.#checkpoints();
    if (sign === this.#seen) return undefined; // W3
    this.#seen = sign;
    const { manifest } = openCheckpoint(this.#directory, this.#manifest, this.#disk);
    const { sha256, modelDigest } = manifest;
    if (`sha256:${modelDigest}` === version.digest) this.#base = sha256;
    if (sha256 === this.#base) return undefined;
    // W1: another file may have the same manifest, and what was damaged in the one before it.
    const own = this.#isFile() ? `${sha256} ${sign}` : sha256;
    const newer: Newer = { kind: "checkpoint", manifest: sha256, sign: own };
    if (this.#isDue(newer)) return newer;
    if (Number.isFinite(this.#tried.get(own))) this.#seen = ""; // Its time will come.
    return undefined;
  }

  /** A calibration that was stored, or removed, since the version answers. */
  #newerCalibration({ digest, calibrated }: ServedVersion): Newer | undefined {
    const isFile = this.#isFile();
    const hex = digest.replace(/^sha256:/, "");
    const at = this.#timeOf(isFile ? this.#directory : calibrationPath(this.#directory, hex));
    const before = this.#calibration;
    this.#calibration = { digest, at };
    const isFirst = before?.digest !== digest;
    const isOther = isFirst ? !isFile && at > 0 !== (calibrated === true) : before.at !== at;
    if (!isOther || (isFile && this.#digestInFile() !== digest)) return undefined;
    return { kind: "calibration", sign: `calibration ${digest} ${at}` };
  }

  /** Of the model in the file: another, or a damaged one, may lie in its place. */
  #digestInFile(): string {
    const { manifest } = openCheckpoint(this.#directory, this.#manifest, this.#disk);
    return `sha256:${manifest.modelDigest}`;
  }

  /** Names of checkpoints, with the times of their manifests; 0: it is not committed so far. */
  #checkpoints(): string {
    if (this.#isFile()) return `${this.#timeOf(this.#directory)}`;
    const { checkpoints } = pathsOf(this.#directory);
    const told = this.#disk.list(checkpoints).map((name) => {
      return `${name} ${this.#timeOf(join(checkpoints, name, manifestName))}`;
    });
    return told.join("\n");
  }

  /** Files of deltas, in the order of their names. */
  #deltas(): Newer[] {
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
      return 0; // Gone in between: the next look sees it.
    }
  }
}
