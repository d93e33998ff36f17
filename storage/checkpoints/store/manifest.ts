// The file format of the directory store, version 2; store-paths.ts has the file names.
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
import { CheckpointCorruptError, InputUnusableError } from "../../../src/errors/errors.ts";
import { seal, unseal } from "../../disk/sealed-json.ts";
import type { Manifest } from "./checkpoint-store.ts";
import { isPartName } from "./store-paths.ts";

/** Version of everything this file describes. */
export const formatVersion = 2;

const nat = z.number().int().nonnegative();
const hash = z.string().regex(/^[0-9a-f]{64}$/);

const file = { bytes: nat, sha256: hash };

/** A part's name, which becomes a path: see `isPartName`. */
export const partName = z.string().refine(isPartName, "expected a plain lower-case file name");

/** A part of a checkpoint, in a manifest and in a message. */
export const partSchema = z.object({
  name: partName,
  ...file,
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
  from: z.object({ cut: nat, generation: nat, sha256: hash }).nullable(),
  /** The process that claimed the generation, for people; left out by earlier versions. */
  writer: z.string().optional(),
  sha256: hash,
});

/** A manifest, on disk and in a message. */
export const manifestSchema = z.object({
  version: z.literal(formatVersion),
  run: z.string(),
  cut: nat,
  generation: nat,
  jobIdentity: z.string(),
  parent: z.object({ file: z.string(), sha256: hash }).nullable(),
  lineage: z
    .array(z.object({ generation: nat, from: nat, restored: z.enum(["exact", "partial"]) }))
    .default([]), // Older manifests lack it.
  best: z.boolean(),
  modelDigest: z.string(),
  arithmetic: z.string(),
  metrics: z.unknown(),
  position: z.unknown(),
  means: z.record(z.string(), z.number()).optional(), // Only with `missing: "mean"`.
  createdBy: z.string(),
  written: z.object({ baseline: nat, differences: nat, sum: nat, last: nat }),
  parts: z.array(partSchema),
  sha256: hash,
});

/** The job that owns a store's directory. */
export type JobRecord = z.output<typeof jobSchema>;
/** The record of a generation, with the checkpoint from which it continues. */
export type GenerationRecord = z.output<typeof generationSchema>;

/** The bytes of a record without its `sha256`, and the seal over them. */
export function encodeRecord(
  record: Omit<JobRecord, "sha256"> | Omit<GenerationRecord, "sha256"> | Omit<Manifest, "sha256">,
): { bytes: Uint8Array; sha256: string } {
  const { text, sha256 } = seal(record);
  return { bytes: new TextEncoder().encode(text), sha256 };
}

/** @throws CheckpointCorruptError, InputUnusableError (of another version) */
export const decodeJob = (bytes: Uint8Array, path: string): JobRecord =>
  decode(jobSchema, bytes, path);

/** @throws CheckpointCorruptError, InputUnusableError (of another version) */
export const decodeGeneration = (bytes: Uint8Array, path: string): GenerationRecord =>
  decode(generationSchema, bytes, path);

/** @throws CheckpointCorruptError, InputUnusableError (of another version) */
export const decodeManifest = (bytes: Uint8Array, path: string): Manifest =>
  decode(manifestSchema, bytes, path);

function decode<Schema extends z.ZodType>(
  schema: Schema,
  bytes: Uint8Array,
  path: string,
): z.output<Schema> {
  const value = unseal(bytes, path);
  const version = z.object({ version: z.unknown() }).safeParse(value).data?.version;
  // Intact, but of another version: skipping it would lose steps that another Osiris has trained.
  if (version !== formatVersion) {
    const message = `Expected version ${formatVersion} in ${path}, got ${version}`;
    throw new InputUnusableError(path, `${message}; use the Osiris that wrote it`);
  }
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  throw new CheckpointCorruptError(path, `${issue?.path.join(".")}: ${issue?.message}`);
}
