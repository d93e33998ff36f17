// The checkpoint store over a place: commits, reads and collects checkpoints of a directory
// (directory-checkpoint-store.ts) or of an object store (object-checkpoint-store.ts), which claim
// generations and decide what is on the chain.
//
// Invariants
//   K1. A manifest is put in place after its parts, and their names, are durable.
//   K2. Nothing is removed before a newer checkpoint was read back whole. Reading takes long, so
//       what may be removed is determined after it.
//   K3. Removing a checkpoint removes its manifest first, durably: half a checkpoint never exists.
//   K4. A place without a checkpoint has no owner: a job that failed before its first checkpoint
//       does not block other jobs. The next job claims a newer generation, which fences the failed
//       one.
//   K5. The checkpoints that a kept one is an increment on are kept with it, with all their files.

import { strict as assert } from "node:assert";
import {
  CheckpointForeignError,
  InputUnusableError,
  StoreFailedError,
} from "../../../src/errors/errors.ts";
import { expected } from "../../../src/ports/check-options.ts";
import type { Disk } from "../../../src/ports/disk.ts";
import { lastingRefusal } from "../../../src/ports/disk-refusals.ts";
import { isObjectAddress } from "../../../src/ports/object-store.ts";
import { onDisk } from "../../disk/durable-files.ts";
import { holdFiles, openEach } from "../../disk/held-files.ts";
import type {
  CheckpointStore,
  CollectOptions,
  Damage,
  Descent,
  Manifest,
  ManifestFields,
} from "./checkpoint-store.ts";
import { asGeneration, checkFence } from "./fence.ts";
import { writtenAfter } from "./full-or-incremental.ts";
import { encodeManifest, manifestVersion } from "./manifest.ts";
import { openObjectsMax } from "./object-place.ts";
import { openPacks } from "./pack-writer.ts";
import { readFiles, readWholePart, streamPart, verifyParts } from "./part-files.ts";
import { filesNeeded } from "./part-index.ts";
import type { Place } from "./place.ts";
import { checkpointName, manifestName, parseCheckpointName } from "./store-paths.ts";
import { readCalibration, writeCalibration } from "./stored-calibration.ts";

/** Options of `openStore`. */
export interface StoreOptions {
  /** A directory, or `s3://bucket/prefix`. */
  readonly directory: string;
  /** The file system. @default the machine's own */
  readonly disk?: Disk;
  /** Bytes after which a pack file is finished. @default 256 MiB */
  readonly packBytes?: number;
  /** Hash of the job's specification: two jobs with the same one train the same model. */
  readonly jobIdentity: string;
  /** The specification, for people and for a job that resumes; JSON gives better error messages. */
  readonly jobText: string;
}

/** The store over a place. */
export function storeAt(place: Place, jobText: string): CheckpointStore {
  // A baseline is read back once, not again with every increment on it.
  let verified: ReadonlySet<string> = new Set();
  // Over a network, thousands of parts would take a round trip each.
  const isRemote = isObjectAddress(place.address);
  const files = isRemote ? holdFiles(place, openObjectsMax) : openEach(place);
  return {
    directory: place.address,
    jobText,
    beginGeneration: (from, passOver = []) =>
      usable(place.address, () => place.claim(from?.sha256, passOver)),
    packWriter: (generation, cut, owner) => openPacks(place, generation, cut, owner),
    commit: (fields) => commit(place, fields),
    latest: () => latest(place, false),
    list: () => list(place, false),
    manifestText: ({ cut, generation }) => {
      const path = place.paths.manifest(cut, generation);
      return onDisk("read", path, () => place.read(path));
    },
    beginOf: (generation) => place.beginOf(generation),
    checkpoints: () => place.checkpoints(false),
    calibration: (modelDigest) => readCalibration(place, modelDigest),
    setCalibration: ({ modelDigest }, calibration) =>
      writeCalibration(place, modelDigest, calibration),
    async verify(manifest) {
      await verifyParts(place, manifest);
    },
    readPart: (manifest, name) => streamPart(place, manifest, name, files),
    readWholePart: (manifest, name) => readWholePart(place, manifest, name, files),
    readFiles: (manifest, name) => readFiles(place, manifest, name, files),
    async collect(options) {
      const newest = collectible(place, options)?.newest;
      if (newest === undefined) return [];
      verified = await verifyParts(place, newest, verified); // K2
      return collect(place, options, newest.sha256);
    },
  };
}

function commit(place: Place, fields: ManifestFields): Manifest {
  const { paths, jobIdentity } = place;
  const { cut, generation } = fields;
  checkFence(place, generation);
  const before = latest(place, true);
  assert(before === undefined || cut >= before.cut, `cut ${cut} is before that of ${before?.cut}`);
  return asGeneration(place, generation, "commit", paths.manifest(cut, generation), () => {
    const { bytes, manifest } = encodeManifest({
      ...fields,
      version: manifestVersion,
      jobIdentity,
      parent: before === undefined ? null : { file: nameOf(before), sha256: before.sha256 },
      lineage: lineageAfter(before, fields),
      written: writtenAfter(before?.written, fields.parts),
      parts: [...fields.parts].sort((a, b) => (a.name < b.name ? -1 : 1)),
    });
    place.putManifest(manifest, bytes); // K1
    place.manifests.set(manifest.sha256, manifest);
    return manifest;
  });
}

/** Most generations in a lineage; the oldest ones are dropped, so the run's start is lost. */
const lineageMax = 1000;

function lineageAfter(
  before: Manifest | undefined,
  { generation, restored = "exact" }: ManifestFields,
): readonly Descent[] {
  const lineage = before?.lineage ?? [];
  const isSame = before?.generation === generation && lineage.length > 0;
  if (isSame && restored === "exact") return lineage;
  return [...lineage, { generation, from: before?.cut ?? 0, restored }].slice(-lineageMax);
}

function latest(place: Place, isKnown: boolean): Manifest | undefined {
  for (const found of place.chain(isKnown)) if (!("reason" in found)) return found;
  return undefined;
}

function list(place: Place, isKnown: boolean): { manifests: Manifest[]; damaged: Damage[] } {
  const manifests: Manifest[] = [];
  const damaged: Damage[] = [];
  for (const found of place.chain(isKnown)) {
    if ("reason" in found) damaged.push(found);
    else manifests.push(found);
  }
  return { manifests, damaged };
}

/** The newest checkpoint, and the directories that it makes useless; undefined: there are none. */
function collectible(
  place: Place,
  { generation, keep, begin = 0 }: CollectOptions,
): { readonly newest: Manifest; readonly removed: readonly string[] } | undefined {
  if (!Number.isInteger(keep) || keep < 1) throw expected("keep", "an integer >= 1", keep);
  checkFence(place, generation);
  const { manifests } = list(place, true);
  const newest = manifests[0];
  if (newest === undefined) return undefined;
  const best = manifests.find((one) => one.best);
  const kept = new Set<string>();
  for (const one of [...manifests.slice(0, keep), ...(best === undefined ? [] : [best])]) {
    kept.add(directoryOf(one));
    for (const file of filesNeeded(one)) kept.add(directoryOf(file)); // K5
  }
  const removed = place.checkpoints(true).filter((name) => {
    const parsed = parseCheckpointName(name);
    if (parsed === undefined || kept.has(name)) return false;
    if (parsed.cut < begin) return true; // Of another run: this one's generations write later cuts.
    if (parsed.generation > generation) return false;
    // Keep the parts of a next checkpoint, which this generation may be writing.
    if (parsed.generation < generation) return true;
    return newest.generation === generation && parsed.cut <= newest.cut;
  });
  return removed.length === 0 ? undefined : { newest, removed };
}

/** Removes the collectible checkpoints, if the newest one is still the one that was read back. */
function collect(place: Place, options: CollectOptions, sha256: string): string[] {
  const { generation } = options;
  const found = collectible(place, options);
  if (found?.newest.sha256 !== sha256) return [];
  const removed = [...found.removed];
  asGeneration(place, generation, "remove", place.address, () => {
    place.beginRemoval(generation, removed);
  });
  // Newest first, so that a base goes after the increments that need it (K5).
  for (const name of removed.toReversed()) {
    const { cut = 0, generation: of = 0 } = parseCheckpointName(name) ?? {};
    const path = place.paths.checkpoint(cut, of);
    asGeneration(place, generation, "remove", path, () => place.removeCheckpoint(name));
  }
  asGeneration(place, generation, "tidy", place.address, () => place.tidy());
  return removed;
}

function directoryOf({ cut, generation }: Pick<Manifest, "cut" | "generation">): string {
  return checkpointName(cut, generation);
}

function nameOf(manifest: Manifest): string {
  return `${directoryOf(manifest)}/${manifestName}`;
}

/**
 * Runs `body`. As no training has begun, a lasting failure of the disk is an InputUnusableError.
 */
export function usable<Result>(directory: string, body: () => Result): Result {
  try {
    return onDisk("open", directory, body);
  } catch (error) {
    const why = error instanceof StoreFailedError ? lastingRefusal(error.cause) : undefined;
    if (why === undefined) throw error;
    const message = `Cannot write checkpoints to ${directory}: ${why}`;
    throw new InputUnusableError(directory, `${message}; name another \`checkpoint.directory\``, {
      cause: error,
    });
  }
}

/** The error of a place with the checkpoints of another job, which says how the jobs differ. */
export function foreignError(found: JobText, given: StoreOptions): CheckpointForeignError {
  return new CheckpointForeignError(given.directory, differenceOf(found, given));
}

type JobText = Pick<StoreOptions, "jobIdentity" | "jobText">;

/**
 * Describes how two specifications differ: by option names if both are JSON objects, else by hash.
 */
function differenceOf(found: JobText, given: JobText): string {
  const [ours, theirs] = [fieldsOf(given.jobText), fieldsOf(found.jobText)];
  const differing = [...new Set([...Object.keys(ours), ...Object.keys(theirs)])].filter(
    (key) => JSON.stringify(ours[key]) !== JSON.stringify(theirs[key]),
  );
  if (differing.length > 0) return `other ${differing.map((key) => `\`${key}\``).join(", ")}`;
  return `identity ${found.jobIdentity}, not ${given.jobIdentity}`;
}

function fieldsOf(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? { ...value } : {};
  } catch {
    return {};
  }
}
