// The checkpoint store in a directory: opening it, committing to it, and tidying it up. The layout
// is in manifest.ts, the fence and the chain are in manifest-chain.ts, the parts in part-files.ts.
//
// Invariants
//   K1. A manifest is renamed into place after its parts, and their names, are durable.
//   K2. Nothing is removed before a newer checkpoint was read back whole. Reading takes long, so
//       what may be removed is determined after it.
//   K3. Removing a checkpoint removes its manifest first, durably: half a checkpoint never exists.
//   K4. A directory without a checkpoint has no owner: a job that failed before its first
//       checkpoint does not block other jobs. The next job claims a newer generation, which
//       fences the failed one.
//   K5. The checkpoints that a kept one is an increment on are kept with it, with all their files.

import { strict as assert } from "node:assert";
import { dirname, join } from "node:path";
import {
  CheckpointForeignError,
  InputUnusableError,
  StoreFailedError,
} from "../../../src/errors/errors.ts";
import { expected } from "../../../src/ports/check-options.ts";
import { type Disk, realDisk } from "../../../src/ports/disk.ts";
import { lastingRefusal } from "../../../src/ports/disk-refusals.ts";
import {
  makeDurableDirectory,
  onDisk,
  readWhole,
  replaceDurably,
  temporarySuffix,
} from "../../disk/durable-files.ts";
import type {
  CheckpointStore,
  Damage,
  Descent,
  Generation,
  Manifest,
  ManifestFields,
} from "./checkpoint-store.ts";
import { asGeneration, checkFence, newestGeneration } from "./fence.ts";
import { isModelFile, openFileStore } from "./file-checkpoint-store.ts";
import { writtenAfter } from "./full-or-incremental.ts";
import { readJob } from "./job-record.ts";
import {
  decodeJob,
  encodeManifest,
  encodeRecord,
  formatVersion,
  type JobRecord,
  manifestVersion,
} from "./manifest.ts";
import {
  checkFiles,
  claimGeneration,
  hasCheckpoints,
  type Place,
  readGeneration,
  walkChain,
} from "./manifest-chain.ts";
import { openPacks } from "./pack-writer.ts";
import { readFiles, readWholePart, streamPart, verifyParts } from "./part-files.ts";
import { filesNeeded } from "./part-index.ts";
import { checkpointName, manifestName, parseCheckpointName, pathsOf } from "./store-paths.ts";
import { readCalibration, writeCalibration } from "./stored-calibration.ts";

/** Options of `openStore`. */
export interface StoreOptions {
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

/**
 * Opens the store of a job. Makes the store where the directory has none, or none with a
 * checkpoint. @throws CheckpointForeignError (the directory has another job's checkpoints),
 * CheckpointCorruptError, InputUnusableError (it cannot be made)
 */
export function openStore(options: StoreOptions): CheckpointStore {
  const { directory, disk = realDisk, packBytes, jobIdentity, jobText } = options;
  const paths = pathsOf(directory);
  return usable(directory, () => {
    makeDurableDirectory(disk, directory);
    const sign = () => {
      const record = { version: formatVersion, jobIdentity, jobText } as const;
      replaceDurably(disk, paths.job, encodeRecord(record).bytes, disk.writer);
    };
    if (!disk.exists(paths.job)) sign();
    const found = readJob(directory, disk);
    if (found.jobIdentity !== jobIdentity) {
      if (hasCheckpoints({ disk, paths })) {
        throw new CheckpointForeignError(directory, differenceOf(found, options));
      }
      sign(); // K4
    }
    makeDurableDirectory(disk, paths.generations);
    makeDurableDirectory(disk, paths.checkpoints);
    const place = { disk, paths, packBytes, jobIdentity, manifests: new Map() };
    return storeAt(directory, place, jobText);
  });
}

/**
 * Opens an existing store of any job: a directory, or a model file.
 * @throws CheckpointMissingError, CheckpointCorruptError, InputUnusableError
 */
export function openExistingStore(directory: string, disk: Disk = realDisk): CheckpointStore {
  if (isModelFile(directory, disk)) return openFileStore(directory, disk);
  const paths = pathsOf(directory);
  return usable(directory, () => {
    const { jobIdentity, jobText } = readJob(directory, disk);
    return storeAt(directory, { disk, paths, jobIdentity, manifests: new Map() }, jobText);
  });
}

function storeAt(directory: string, place: Place, jobText: string): CheckpointStore {
  // A baseline is read back once, not again with every increment on it.
  let verified: ReadonlySet<string> = new Set();
  return {
    directory,
    jobText,
    beginGeneration: (from, passOver) =>
      usable(directory, () => beginGeneration(directory, place, from, passOver)),
    packWriter: (generation, cut, owner) => openPacks(place, generation, cut, owner),
    commit: (fields) => commit(place, fields),
    latest: () => latest(place),
    list: () => list(place),
    manifestText: ({ cut, generation }) => {
      const path = place.paths.manifest(cut, generation);
      return onDisk("read", path, () => readWhole(place.disk, path));
    },
    calibration: (modelDigest) => readCalibration(place.disk, directory, modelDigest),
    setCalibration: ({ modelDigest }, calibration) =>
      writeCalibration(place.disk, directory, modelDigest, calibration),
    async verify(manifest) {
      await verifyParts(place, manifest);
    },
    readPart: (manifest, name) => streamPart(place, manifest, name),
    readWholePart: (manifest, name) => readWholePart(place, manifest, name),
    readFiles: (manifest, name) => readFiles(place, manifest, name),
    async collect(options) {
      const newest = collectible(place, options)?.newest;
      if (newest === undefined) return [];
      verified = await verifyParts(place, newest, verified); // K2
      return collect(place, options, newest.sha256);
    },
  };
}

function beginGeneration(
  directory: string,
  place: Place,
  from?: Manifest,
  passOver: readonly string[] = [],
): Generation {
  const { disk, paths, jobIdentity } = place;
  // Two jobs may have opened an empty directory at the same moment; the slower one fails.
  const meet = () =>
    new CheckpointForeignError(directory, "it was started there at the same moment");
  const owner = decodeJob(readWhole(disk, paths.job), paths.job).jobIdentity;
  if (owner !== jobIdentity) throw meet();
  const before = readGeneration(place, newestGeneration(place))?.jobIdentity ?? jobIdentity;
  const claimed = claimGeneration(place, from?.sha256, passOver);
  // The other job's generation is fenced by now. Checkpoints that it committed before remain its
  // own.
  if (before !== jobIdentity && hasCheckpoints(place)) throw meet();
  return claimed;
}

function commit(place: Place, fields: ManifestFields): Manifest {
  const { disk, paths, jobIdentity } = place;
  const { cut, generation } = fields;
  const path = paths.manifest(cut, generation);
  checkFence(place, generation);
  const before = latest(place);
  assert(before === undefined || cut >= before.cut, `cut ${cut} is before that of ${before?.cut}`);
  return asGeneration(place, generation, "commit", path, () => {
    assert(!disk.exists(path), `cut ${cut} of generation ${generation} is committed already`);
    const { bytes, manifest } = encodeManifest({
      ...fields,
      version: manifestVersion,
      jobIdentity,
      parent: before === undefined ? null : { file: nameOf(before), sha256: before.sha256 },
      lineage: lineageAfter(before, fields),
      written: writtenAfter(before?.written, fields.parts),
      parts: [...fields.parts].sort((a, b) => (a.name < b.name ? -1 : 1)),
    });
    disk.makeDirectory(dirname(path));
    checkFiles(place, manifest);
    disk.syncDirectory(dirname(path)); // K1
    disk.syncDirectory(paths.checkpoints);
    checkFence(place, generation);
    replaceDurably(disk, path, bytes);
    checkFence(place, generation); // C3 of manifest-chain.ts
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

function latest(place: Place): Manifest | undefined {
  for (const found of walkChain(place)) if (!("reason" in found)) return found;
  return undefined;
}

function list(place: Place): { manifests: Manifest[]; damaged: Damage[] } {
  const manifests: Manifest[] = [];
  const damaged: Damage[] = [];
  for (const found of walkChain(place)) {
    if ("reason" in found) damaged.push(found);
    else manifests.push(found);
  }
  return { manifests, damaged };
}

/** The newest checkpoint, and the directories that it makes useless; undefined: there are none. */
function collectible(
  place: Place,
  { generation, keep }: { readonly generation: number; readonly keep: number },
): { readonly newest: Manifest; readonly removed: readonly string[] } | undefined {
  const { disk, paths } = place;
  if (!Number.isInteger(keep) || keep < 1) throw expected("keep", "an integer >= 1", keep);
  checkFence(place, generation);
  const { manifests } = list(place);
  const newest = manifests[0];
  if (newest === undefined) return undefined;
  const best = manifests.find((one) => one.best);
  const kept = new Set<string>();
  for (const one of [...manifests.slice(0, keep), ...(best === undefined ? [] : [best])]) {
    kept.add(directoryOf(one));
    for (const file of filesNeeded(one)) kept.add(directoryOf(file)); // K5
  }
  const removed = disk.list(paths.checkpoints).filter((name) => {
    const parsed = parseCheckpointName(name);
    if (parsed === undefined || kept.has(name) || parsed.generation > generation) return false;
    // Keep the parts of a next checkpoint, which this generation may be writing.
    if (parsed.generation < generation) return true;
    return newest.generation === generation && parsed.cut <= newest.cut;
  });
  return removed.length === 0 ? undefined : { newest, removed };
}

/** Removes what `collectible` finds, if the newest checkpoint is still the one that was read. */
function collect(
  place: Place,
  options: { readonly generation: number; readonly keep: number },
  sha256: string,
): string[] {
  const { disk, paths } = place;
  const { generation } = options;
  const directory = dirname(paths.job);
  const found = collectible(place, options);
  if (found?.newest.sha256 !== sha256) return [];
  const removed = [...found.removed];
  // Newest first, so that a base goes after the increments that need it (K5).
  for (const name of removed.toReversed()) {
    const path = join(paths.checkpoints, name);
    asGeneration(place, generation, "remove", path, () => {
      if (disk.exists(join(path, manifestName))) {
        disk.remove(join(path, manifestName)); // K3
        disk.syncDirectory(path);
      }
      disk.remove(path);
    });
  }
  asGeneration(place, generation, "tidy", directory, () => {
    disk.syncDirectory(paths.checkpoints);
    // Remove files of an `openStore` that died while it made the directory.
    for (const name of disk.list(directory)) {
      if (name.endsWith(temporarySuffix)) disk.remove(join(directory, name));
    }
  });
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
function usable<Result>(directory: string, body: () => Result): Result {
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

/**
 * Describes how two specifications differ: by option names if both are JSON objects, else by hash.
 */
function differenceOf(found: JobRecord, given: StoreOptions): string {
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
