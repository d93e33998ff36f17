// The file format of the directory store, version 1; store-paths.ts has the file names.
//
//   <directory>/job.json                              the job that owns the directory
//   <directory>/generations/000012.json               created exclusively: the fence
//   <directory>/checkpoints/000000400-g000012/        cut 400, written by generation 12
//       manifest.json                                 written last
//       dense, table-00003, ...                       the parts
//
// A part may be an increment. The manifest then names the files of earlier checkpoints that it
// needs; they are kept as long as the increment.
//
// All .json files are sealed (sealed-json.ts). A generation record names the checkpoint that the
// generation goes on from. An unfinished record means that its generation did nothing.

import { z } from "zod";
import type { Written } from "../../../src/ports/written.ts";
import { seal, unsealAs } from "../../disk/sealed-json.ts";
import { isPartName } from "./store-paths.ts";

/** Version of everything this file describes. */
export const formatVersion = 1;

const nat = z.number().int().nonnegative();
/** A SHA-256 in hexadecimal. */
export const hash = z.string().regex(/^[0-9a-f]{64}$/);

/** The bytes of a file and their SHA-256, in hexadecimal. */
const file = { bytes: nat, sha256: hash };

/** A part's name, which becomes a path: see `isPartName`. */
export const partName = z.string().refine(isPartName, "expected a plain lower-case file name");

/** A part of a checkpoint, in a manifest and in a message. */
export const partSchema = z.object({
  name: partName,
  ...file,
  /**
   * The earlier files that this part needs, where it is an increment: the baseline's file first,
   * then increments, oldest first. Empty: the part is whole.
   */
  base: z.array(z.object({ cut: nat, generation: nat, ...file })),
});

const jobSchema = z.object({
  version: z.literal(formatVersion),
  jobIdentity: z.string(),
  jobText: z.string(),
  sha256: hash,
});

const generationSchema = z.object({
  version: z.literal(formatVersion),
  generation: nat,
  jobIdentity: z.string(),
  /** The checkpoint that the generation goes on from; null: it begins anew. */
  from: z.object({ cut: nat, generation: nat, sha256: hash }).nullable(),
  /** The process that claimed the generation, for people. */
  writer: z.string(),
  sha256: hash,
});

/** A manifest, on disk and in a message. */
export const manifestSchema = z.object({
  version: z.literal(formatVersion),
  /** Name of the run. */
  run: z.string(),
  /** The step number that the parts belong to. */
  cut: nat,
  generation: nat,
  /** Hash of the job's specification. */
  jobIdentity: z.string(),
  /** The preceding manifest on the chain; null for the first. */
  parent: z.object({ file: z.string(), sha256: hash }).nullable(),
  /**
   * The generations that trained the checkpoint's state, oldest first; of a long lineage only the
   * newest. `from`: the cut that the generation restored, 0: none. `restored`: `partial`, where
   * some rows were lost (bounded jobs).
   */
  lineage: z.array(
    z.object({ generation: nat, from: nat, restored: z.enum(["exact", "partial"]) }),
  ),
  /** Whether this checkpoint is the best so far. */
  best: z.boolean(),
  /** Tree hash over the whole state. Placement does not change it. */
  modelDigest: z.string(),
  /** The arithmetic that the run began with. */
  arithmetic: z.string(),
  /** JSON: the metrics at this cut, and the state of early stopping. */
  metrics: z.unknown().default(null),
  /** JSON: the position from which data readers continue. */
  position: z.unknown().default(null),
  /**
   * The means that replace missing values of dense features (`missing: "mean"`), which a model
   * needs to predict. Left out where no feature uses them.
   */
  means: z.record(z.string(), z.number()).optional(),
  /** The writer's host, process and version, for people. */
  createdBy: z.string(),
  /**
   * Bytes of the parts written since the baseline, which is the last checkpoint that needs no
   * other; `differences`: number of increments since, with the sum of their bytes, and the bytes of
   * the last one.
   */
  written: z.object({ baseline: nat, differences: nat, sum: nat, last: nat }),
  parts: z.array(partSchema),
  /** Hash of this manifest's own text. */
  sha256: hash,
});

/** A manifest before it is sealed: parsing puts the fields in their order in the file. */
export const unsealedManifest = manifestSchema.omit({ sha256: true });

/** The job that owns a store's directory. */
export type JobRecord = z.output<typeof jobSchema>;
/** The record of a generation, with the checkpoint from which it continues. */
export type GenerationRecord = z.output<typeof generationSchema>;
/** A manifest as it is read; `Manifest` is the same, readonly. */
type ManifestRecord = z.output<typeof manifestSchema>;

/** The bytes of a record without its `sha256`, and the seal over them. */
export function encodeRecord(
  record: Unsealed<JobRecord> | Unsealed<GenerationRecord> | Unsealed<ManifestRecord>,
): { bytes: Uint8Array; sha256: string } {
  const { text, sha256 } = seal(record);
  return { bytes: new TextEncoder().encode(text), sha256 };
}

type Unsealed<Record> = Omit<Written<Record>, "sha256">;

/** @throws CheckpointCorruptError, InputUnusableError (of another version) */
export const decodeJob = (bytes: Uint8Array, path: string): JobRecord =>
  unsealAs(jobSchema, formatVersion, bytes, path);

/** @throws CheckpointCorruptError, InputUnusableError (of another version) */
export const decodeGeneration = (bytes: Uint8Array, path: string): GenerationRecord =>
  unsealAs(generationSchema, formatVersion, bytes, path);

/** @throws CheckpointCorruptError, InputUnusableError (of another version) */
export const decodeManifest = (bytes: Uint8Array, path: string): ManifestRecord =>
  unsealAs(manifestSchema, formatVersion, bytes, path);
