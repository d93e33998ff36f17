// The file format of the directory store; store-paths.ts has the file names.
//
//   <directory>/job.json                              the job that owns the directory
//   <directory>/generations/000012.json               created exclusively: the fence
//   <directory>/checkpoints/000000400-g000012/        cut 400, written by generation 12
//       manifest.json                                 written last
//       pack-d3-00000, ...                            parts, one after the other (pack-writer.ts)
//
// A part may be an increment. The manifest then names the parts of earlier checkpoints that it
// needs; their files are kept as long as the increment. packed-parts.ts describes how a manifest
// writes its parts.
//
// All .json files are sealed (sealed-json.ts). A generation record names the checkpoint that the
// generation goes on from. An unfinished record means that its generation did nothing.

import { z } from "zod";
import type { Written } from "../../../src/ports/written.ts";
import { checkedAs, openSeal, parseSealed, seal, unsealAs } from "../../disk/sealed-json.ts";
import { packParts, unpackParts } from "./packed-parts.ts";
import { isPartName } from "./store-paths.ts";

/** Version of the records of jobs and generations, and of a model file's proof. */
export const formatVersion = 1;

/** Version of a manifest. */
export const manifestVersion = 2;

const nat = z.number().int().nonnegative();
/** A SHA-256 in hexadecimal. */
export const hash = z.string().regex(/^[0-9a-f]{64}$/);

/** The name of a part or of its file, which becomes a path: see `isPartName`. */
export const partName = z.string().refine(isPartName, "expected a plain lower-case file name");

/** Bytes of a file: `bytes` bytes from byte `at` on, and their SHA-256 in hexadecimal. */
const place = { file: partName, at: nat, bytes: nat, sha256: hash };

/** A part of a checkpoint, in a manifest and in a message. */
export const partSchema = z.object({
  name: partName,
  ...place,
  /**
   * The same part of earlier checkpoints, where it is an increment on them: the baseline first,
   * then increments, oldest first. Empty: the part is whole.
   */
  base: z.array(z.object({ cut: nat, generation: nat, ...place })),
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

/** A manifest, in memory and in a message. */
export const manifestSchema = z.object({
  version: z.literal(manifestVersion),
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
  /**
   * `async`: trained by asynchronous trainers, so that no other training gives this state again.
   * Left out: training from the checkpoint before does.
   */
  mode: z.literal("async").optional(),
  /** Tree hash over the whole state. Placement does not change it. */
  modelDigest: z.string(),
  /** The arithmetic that the run began with. */
  arithmetic: z.string(),
  /** The instruction sets that trained or imported the model; they change no bit. */
  sets: z.array(z.string()).optional(),
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

/** A manifest on disk; parsing puts the fields in their order in the file. */
const storedSchema = manifestSchema.extend({
  files: z.array(z.string()),
  parts: z.array(z.string()),
  sha256: hash,
});

const unsealedSchema = storedSchema.omit({ sha256: true });

/** The job that owns a store's directory. */
export type JobRecord = z.output<typeof jobSchema>;
/** The record of a generation, with the checkpoint from which it continues. */
export type GenerationRecord = z.output<typeof generationSchema>;
/** A manifest in memory; `Manifest` is the same, readonly. */
type ManifestRecord = z.output<typeof manifestSchema>;

/** The bytes of a record without its `sha256`, and the seal over them. */
export function encodeRecord(
  record: Omit<JobRecord, "sha256"> | Omit<GenerationRecord, "sha256">,
): { bytes: Uint8Array; sha256: string } {
  return sealed(record);
}

/** Checks a manifest and seals it. Returns its bytes, and the manifest with its seal. */
export function encodeManifest(unsealed: Omit<Written<ManifestRecord>, "sha256">): {
  bytes: Uint8Array;
  manifest: Written<ManifestRecord>;
} {
  const stored = unsealedSchema.parse({ ...unsealed, ...packParts(unsealed) });
  const { bytes, sha256 } = sealed(stored);
  const { files: _, ...fields } = stored;
  return { bytes, manifest: { ...fields, parts: unsealed.parts, sha256 } };
}

function sealed(record: object): { bytes: Uint8Array; sha256: string } {
  const { text, sha256 } = seal(record);
  return { bytes: new TextEncoder().encode(text), sha256 };
}

/** @throws CheckpointCorruptError, InputUnusableError (of another version) */
export const decodeJob = (bytes: Uint8Array, path: string): JobRecord =>
  unsealAs(jobSchema, formatVersion, bytes, path);

/** @throws CheckpointCorruptError, InputUnusableError (of another version) */
export const decodeGeneration = (bytes: Uint8Array, path: string): GenerationRecord =>
  unsealAs(generationSchema, formatVersion, bytes, path);

/**
 * Returns the manifest in `bytes`. One in `known`, by its seal, is not decoded again, and others
 * are added to it: each is decoded once.
 * @throws CheckpointCorruptError, InputUnusableError (of another version)
 */
export function decodeManifest(
  bytes: Uint8Array,
  path: string,
  known: Map<string, Written<ManifestRecord>> = new Map(),
): Written<ManifestRecord> {
  const opened = openSeal(bytes, path);
  const found = known.get(opened.sha256);
  known.delete(opened.sha256);
  const manifest = found ?? manifestOf(parseSealed(opened.text, path), path);
  known.set(opened.sha256, manifest); // The latest use comes last.
  return manifest;
}

function manifestOf(value: unknown, path: string): ManifestRecord {
  const { files, ...stored } = checkedAs(storedSchema, manifestVersion, value, path);
  return { ...stored, parts: unpackParts({ ...stored, files }, path) };
}
