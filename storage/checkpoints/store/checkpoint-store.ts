// The checkpoint store: the only source of truth about a run's training state (law 6).
//
// A checkpoint is all parts of one cut, which is a step number. It exists when its manifest exists
// (law 2). Manifests form a chain. Each restore begins a generation, which continues from one
// manifest of the chain. From then on, nothing that an older generation still writes can join the
// chain (law 3).
//
//   generation 1   10 ── 20    30            30 came after generation 2 had begun: off the chain
//   generation 2          └─── 30 ── 40
//
// Calls are synchronous and block the calling thread, except `verify` and `collect`, which read
// whole checkpoints. A store may be open in many threads and processes at once.

import type { z } from "zod";
import type { Written } from "../../../src/ports/written.ts";
import type { manifestSchema } from "./manifest.ts";
import type { StoredCalibration } from "./stored-calibration.ts";

/** A committed checkpoint. Plain data; it crosses threads. manifest.ts describes its fields. */
export type Manifest = Written<z.output<typeof manifestSchema>>;

/** A part of a checkpoint. */
export type PartRecord = Manifest["parts"][number];

/** The same part in an earlier checkpoint of the chain. */
export type BasePart = PartRecord["base"][number];

/** A generation that trained a part of a checkpoint's state. */
export type Descent = Manifest["lineage"][number];

/** Bytes that a restore reads for a part: the part's own bytes and those of its base parts. */
export function bytesToRead({ bytes, base }: PartRecord): number {
  return base.reduce((sum, one) => sum + one.bytes, bytes);
}

/** The fields of a manifest that the committer provides; the store has the others. */
export type ManifestFields = Omit<
  Manifest,
  "version" | "jobIdentity" | "parent" | "lineage" | "written" | "sha256"
> & {
  /** How the writing generation began. `partial`: some rows were lost. @default "exact" */
  readonly restored?: Descent["restored"];
};

/** A checkpoint of the chain that cannot be used, and the reason. */
export interface Damage {
  readonly path: string;
  readonly reason: string;
  /** The path to which its directory was renamed, once a generation continued without it. */
  readonly kept?: string;
}

/** The checkpoint from which a new generation continues. */
export interface Generation {
  readonly generation: number;
  /** The newest usable checkpoint; undefined where there is none: start from step 0. */
  readonly latest: Manifest | undefined;
  /** Newer checkpoints of the chain that were skipped as damaged, and put aside. */
  readonly damaged: readonly Damage[];
}

/**
 * Writes parts of one checkpoint, one after the other. They belong to the checkpoint only after
 * `finish` and a commit that names them. Each method throws StoreFailedError where the disk fails,
 * and may be called again after it: then it continues where it failed. It throws
 * GenerationFencedError where a newer generation began.
 */
export interface PackWriter {
  /** Begins the next part; `name` is a lower-case file name. */
  begin(name: string): void;
  /** Appends bytes to the part. The caller keeps the buffer. */
  write(bytes: Uint8Array): void;
  /** Ends the part. Its bytes are on disk only after `finish`. `base` of the record is empty. */
  end(): PartRecord;
  /** Returns once all ended parts are on disk. */
  finish(): void;
  /** Deletes the file that is not finished; parts of earlier files stay. */
  discard(): void;
}

export interface CheckpointStore {
  /** The store's directory or `s3://` address, as the user named it. */
  readonly directory: string;
  /** The job's specification, as given when the store was first opened. */
  readonly jobText: string;
  /**
   * Digests of the tables, in the order of the job, computed with their full optimizer state. Set
   * for a model file (model-file.ts) whose parts leave out the state of each element: it reads as
   * zeros, which predictions do not use.
   */
  readonly statedDigests?: readonly string[];

  /**
   * Claims the next generation and fences all older ones. Two concurrent callers get different
   * numbers, and the higher number wins. The generation continues from the newest usable
   * checkpoint, or from `from`, a checkpoint of the chain; later checkpoints are then off the
   * chain. `passOver` lists hashes of manifests that a reader found damaged. @throws
   * CheckpointForeignError, InputUnusableError (the directory refuses writes), StoreFailedError,
   * CheckpointMissingError (`from` is not on the chain)
   */
  beginGeneration(from?: Manifest, passOver?: readonly string[]): Generation;

  /**
   * Writes parts of checkpoint `cut`. `owner`, lower-case letters and digits, names the writer
   * among those of the checkpoint. Any thread may call it.
   */
  packWriter(generation: number, cut: number, owner: string): PackWriter;

  /**
   * Commits the checkpoint by writing its manifest, after checking that every file is on disk with
   * its size. `cut` grows within a generation and is never below the cut from which the generation
   * continued. @throws GenerationFencedError, StoreFailedError, CheckpointCorruptError (a file is
   * missing)
   */
  commit(fields: ManifestFields): Manifest;

  /** The newest usable checkpoint of the chain. */
  latest(): Manifest | undefined;

  /** The chain, newest first, and its damaged checkpoints. Files are checked by size only. */
  list(): { readonly manifests: readonly Manifest[]; readonly damaged: readonly Damage[] };

  /** The step from which a generation continued; undefined where its record cannot be read. */
  beginOf(generation: number): number | undefined;

  /** Names of all checkpoints in the store, on the chain or off it, sorted by cut. */
  checkpoints(): string[];

  /** The sealed text of a manifest, as it was committed. @throws CheckpointCorruptError */
  manifestText(manifest: Manifest): Uint8Array;

  /**
   * The calibration stored for the model with this digest, in hexadecimal; undefined: none.
   * @throws CheckpointCorruptError where it is damaged, or belongs to another model
   */
  calibration(modelDigest: string): StoredCalibration | undefined;

  /**
   * Stores the calibration of a checkpoint's model and replaces an earlier one; undefined removes
   * it. The model and its digest do not change. @throws StoreFailedError
   */
  setCalibration(
    manifest: Pick<Manifest, "modelDigest">,
    calibration: StoredCalibration | undefined,
  ): void;

  /**
   * Reads every part of a checkpoint, base included, and compares their hashes. Yields the thread
   * between two pieces. Rejects with CheckpointCorruptError naming the file and the part.
   */
  verify(manifest: Manifest): Promise<void>;

  /**
   * The part's own bytes, in pieces; each piece overwrites the one before. The hash is checked at
   * the end: use nothing before the iteration has returned. @throws CheckpointCorruptError naming
   * the file and the part, CheckpointMissingError (no such part)
   */
  readPart(manifest: Manifest, name: string): Generator<Uint8Array, void, undefined>;

  /** As `readPart`, in memory that the caller owns. Throws the same errors. */
  readWholePart(manifest: Manifest, name: string): Uint8Array;

  /**
   * The part's own bytes first, then those of its base, newest first. A file is opened when it is
   * iterated over. Otherwise as `readPart`.
   */
  readFiles(manifest: Manifest, name: string): Generator<Uint8Array, void, undefined>[];

  /**
   * Removes old checkpoints and the files of unfinished writers. Keeps the newest `keep`
   * checkpoints, the best one, and the checkpoints that these are increments on. Reads the newest
   * checkpoint back first, as `verify` does, and removes nothing if that fails. `generation` is the
   * caller's; files of newer generations are kept, unless they are of steps before `begin`.
   * Resolves with the removed names; rejects with CheckpointCorruptError, GenerationFencedError,
   * StoreFailedError or InvalidOptionError.
   */
  collect(options: CollectOptions): Promise<string[]>;
}

export interface CollectOptions {
  readonly generation: number;
  readonly keep: number;
  /**
   * The step at which a warm-started run began. Files of earlier steps are links to files of the
   * run that it started from, so their generation numbers are not this run's. @default 0
   */
  readonly begin?: number;
}
