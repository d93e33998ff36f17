// The checkpoint store in an object store: opening it, and its part of the store over a place
// (store-over-place.ts), by the log (object-log.ts).
//
// Its invariants, as an object store keeps them
//   K1. The commit record is created after the manifest, and the manifest is put after the files.
//   K2. As in a directory.
//   K3. A removal is a record, created before the first object is removed. So a late collector
//       removes nothing from which a newer generation continues. The manifest is removed first.
//   K4. The newest record names the owning job, which owns the place while the chain is not empty.
//   K5. As in a directory; lists of objects are used only to find garbage.
//   C1, C2. A claim is the record right after the one whose chain it has read. If a commit takes
//       that number first, the claim reads the chain again.
//   C3. Only the creation of its record puts a commit on the chain. A writer that has not seen a
//       newer generation finds its number taken, and so is fenced by the store.
//   C4. The chain is read from the newest record. An unreadable manifest hides nothing behind it.
//   C5. A claim that continues without damaged checkpoints lists them, and `collect` leaves them.

import { strict as assert } from "node:assert";
import {
  CheckpointCorruptError,
  CheckpointForeignError,
  CheckpointMissingError,
  StoreFailedError,
} from "../../../src/errors/errors.ts";
import { requireFenceBlocking } from "../../../src/objects/probe.ts";
import { type Disk, realDisk } from "../../../src/ports/disk.ts";
import type { CheckpointStore, Damage, Generation, Manifest } from "./checkpoint-store.ts";
import { checkFence } from "./fence.ts";
import {
  checkFiles,
  type FoundDamage,
  firstUsable,
  type Looking,
  lookAt,
  notThere,
} from "./look-at-checkpoint.ts";
import { decodeJob, encodeRecord, formatVersion, type JobRecord } from "./manifest.ts";
import type { LoggedCheckpoint, LogState } from "./object-log.ts";
import { type ObjectPlace, objectPlace } from "./object-place.ts";
import { filesNeeded, type NeededFile } from "./part-index.ts";
import type { Place } from "./place.ts";
import { foreignError, type StoreOptions, storeAt, usable } from "./store-over-place.ts";
import { below, checkpointName, parseCheckpointName } from "./store-paths.ts";

/** Most lost races in one call; more would mean an endless loop. */
const racesMax = 1000;

/** Most damaged checkpoints that records list. */
const passedOverMax = 1000;

/** Commits between two searches for leftover files of older generations. */
const tidyEvery = 32;

/** See `openStore`. */
export function openObjectCheckpoints(options: StoreOptions): CheckpointStore {
  const { directory: address, disk = realDisk, packBytes, jobIdentity, jobText } = options;
  return usable(address, () => {
    const files = objectPlace(address, disk, packBytes);
    const newest = files.log.newest();
    // A simulated machine knows its store.
    if (newest === undefined && disk.objects === undefined) requireFenceBlocking(files.objects);
    if (newest !== undefined && newest.jobIdentity !== jobIdentity && newest.chain.length > 0) {
      throw foreignError(readJob(files, newest.jobIdentity), options); // K4
    }
    const key = files.keyOf(jobPath(address, jobIdentity));
    if (files.objects.size(key) === undefined) {
      const record = { version: formatVersion, jobIdentity, jobText } as const;
      files.objects.put(key, encodeRecord(record).bytes);
    }
    return storeAt(placeOf(files, jobIdentity), jobText);
  });
}

/** The store at an address at which a job has begun. */
export function openExistingObjects(address: string, disk: Disk): CheckpointStore {
  return usable(address, () => {
    const files = objectPlace(address, disk);
    const newest = files.log.newest();
    if (newest === undefined)
      throw new CheckpointMissingError(`${address}: no run has begun there`);
    const { jobIdentity, jobText } = readJob(files, newest.jobIdentity);
    return storeAt(placeOf(files, jobIdentity), jobText);
  });
}

function jobPath(address: string, jobIdentity: string): string {
  return below(address, "jobs", `${jobIdentity}.json`);
}

function readJob(files: ObjectPlace, jobIdentity: string): JobRecord {
  const path = jobPath(files.address, jobIdentity);
  return decodeJob(read(files, path), path);
}

function read({ objects, keyOf }: ObjectPlace, path: string): Uint8Array {
  const bytes = objects.get(keyOf(path));
  if (bytes === undefined) throw new CheckpointCorruptError(path, notThere);
  return bytes;
}

/** The place, and the results of this store's earlier checks. */
interface Own extends ObjectPlace, Looking {
  /** Hashes of manifests whose files this store has seen whole. */
  readonly known: Set<string>;
  /** Names of checkpoints off the chain that the last list had, and the commits since it. */
  garbage: Set<string>;
  commits: number;
}

function placeOf(files: ObjectPlace, jobIdentity: string): Place {
  const { objects, keyOf, log } = files;
  const own: Own = {
    ...{ ...files, jobIdentity, manifests: new Map(), known: new Set() },
    ...{ garbage: new Set(), commits: Number.POSITIVE_INFINITY },
    read: (path) => read(files, path),
  };
  return {
    ...own,
    write(path, bytes) {
      if (bytes === undefined) objects.remove([keyOf(path)]);
      else objects.put(keyOf(path), bytes);
    },
    claim: (sha256, passOver) => claim(own, sha256, passOver),
    chain: (isKnown) => walk(own, log.newest()?.chain ?? [], isKnown),
    putManifest: (manifest, bytes) => putManifest(own, manifest, bytes),
    beginOf(generation) {
      const record = log.begin(generation);
      return record && (record.from?.cut ?? 0);
    },
    checkpoints: (isKnown) => checkpoints(own, isKnown),
    beginRemoval: (generation, names) => beginRemoval(own, generation, names),
    removeCheckpoint: (name) => removeCheckpoint(own, name),
    tidy: () => undefined,
  };
}

const nothing: LogState = {
  ...{ generation: 0, jobIdentity: "", from: null, chain: [], passedOver: [] },
};

function claim(own: Own, sha256: string | undefined, passOver: readonly string[]): Generation {
  const { log, jobIdentity, address } = own;
  for (let race = 0; race < racesMax; race++) {
    const newest = log.newest();
    const before = newest ?? nothing;
    if (before.jobIdentity !== jobIdentity && before.chain.length > 0) {
      throw new CheckpointForeignError(address, "it was started there at the same moment"); // K4
    }
    const chain = walk(own, before.chain, false);
    const { latest, damaged } = firstUsable(own, chain, sha256, passOver);
    const at = before.chain.findIndex((one) => one.sha256 === latest?.sha256);
    const from = before.chain[at] ?? null;
    const { kept, passedOver } = putAside(own, sha256 === undefined ? damaged : []);
    const generation = before.generation + 1;
    const state: LogState = {
      ...{ generation, jobIdentity, from },
      chain: from === null ? [] : before.chain.slice(at),
      passedOver: [...before.passedOver, ...passedOver].slice(-passedOverMax), // C5
    };
    if (log.append(newest, "generation", state)) {
      return { generation, latest, damaged: sha256 === undefined ? kept : damaged };
    }
  }
  throw new StoreFailedError("claim a generation in", address);
}

/** The damaged checkpoints as a claim reports them, and as it lists them: they are not moved. */
function putAside({ paths }: Own, damaged: readonly FoundDamage[]) {
  const kept = damaged.map(({ of, path, reason }): Damage => {
    if (of === undefined || reason === notThere) return { path, reason };
    return { path, reason, kept: paths.checkpoint(of.cut, of.generation) };
  });
  return { kept, passedOver: damaged.flatMap(({ of }) => of ?? []) };
}

/** The checkpoints of a chain, newest first; `isKnown`: see `Place.chain`. */
function* walk(
  own: Own,
  chain: readonly LoggedCheckpoint[],
  isKnown: boolean,
): Generator<Manifest | FoundDamage, void, undefined> {
  const { known, manifests, log } = own;
  for (const { cut, generation, sha256 } of chain) {
    const isSeen = isKnown && known.has(sha256);
    const found =
      (isSeen && manifests.get(sha256)) || lookAt(own, { cut, generation }, sha256, isSeen);
    if (!("reason" in found)) known.add(sha256);
    // The checkpoint may have been removed since the chain was read (K3).
    else if (!log.newest()?.chain.some((one) => one.sha256 === sha256)) continue;
    yield found;
  }
}

function putManifest(own: Own, manifest: Manifest, bytes: Uint8Array): void {
  const { paths, objects, keyOf } = own;
  const { cut, generation, sha256, parent } = manifest;
  checkFiles(own, unknownFiles(own, manifest));
  objects.put(keyOf(paths.manifest(cut, generation)), bytes); // K1
  // C3
  append(own, generation, "commit", ({ chain, ...rest }) => {
    assert(chain[0]?.sha256 === parent?.sha256, `generation ${generation} has another writer`);
    return { ...rest, chain: [{ cut, generation, sha256 }, ...chain] };
  });
  own.known.add(sha256);
  own.commits++;
}

/**
 * Appends the record that `next` makes from the newest one. @throws GenerationFencedError where a
 * newer generation has begun
 */
function append(
  own: Own,
  generation: number,
  kind: "commit" | "removal",
  next: (before: LogState) => LogState,
): void {
  const { log, address } = own;
  for (let race = 0; race < racesMax; race++) {
    if (log.seen?.generation !== generation) checkFence(own, generation);
    const { seen } = log;
    assert(seen !== undefined, "a generation must be claimed before it writes");
    const { jobIdentity, from, chain, passedOver } = next(seen);
    if (log.append(seen, kind, { generation, jobIdentity, from, chain, passedOver })) return;
    log.newest(); // Reads the record that took the number.
  }
  throw new StoreFailedError("append to the log of", address);
}

/** The files that a checkpoint needs, without those that an earlier check found whole. */
function unknownFiles({ manifests, known }: Own, manifest: Manifest): NeededFile[] {
  const nameOf = ({ cut, generation, file }: NeededFile) => `${cut} ${generation} ${file}`;
  const before = manifest.parent && manifests.get(manifest.parent.sha256);
  const isSeen = before && known.has(before.sha256);
  const seen = new Set(isSeen ? filesNeeded(before).map(nameOf) : []);
  return filesNeeded(manifest).filter((one) => !seen.has(nameOf(one)));
}

/** K3. Takes the checkpoints with these names off the chain. */
function beginRemoval(own: Own, generation: number, names: readonly string[]): void {
  const gone = new Set(names);
  const stays = (one: LoggedCheckpoint) => !gone.has(checkpointName(one.cut, one.generation));
  if (own.log.seen?.chain.every(stays)) return;
  append(own, generation, "removal", ({ chain, ...rest }) => {
    return { ...rest, chain: chain.filter(stays) };
  });
}

function removeCheckpoint(own: Own, name: string): void {
  const { objects, paths, keyOf, manifests } = own;
  const { cut = 0, generation = 0 } = parseCheckpointName(name) ?? {};
  objects.remove([keyOf(paths.manifest(cut, generation))]); // K3
  // A list of objects may lag, and lack files of the manifest; it also has files of no manifest.
  const found = [...manifests.values()].find(
    (one) => one.cut === cut && one.generation === generation,
  );
  const files = found === undefined ? [] : filesNeeded(found).filter(({ isOwn }) => isOwn);
  const named = files.map(({ file }) => keyOf(paths.file(cut, generation, file)));
  const listed = objects.list(`${keyOf(paths.checkpoint(cut, generation))}/`);
  objects.remove([...new Set([...named, ...listed])]);
  own.garbage.delete(name);
}

/** See `Place.checkpoints`. */
function checkpoints(own: Own, isKnown: boolean): string[] {
  const { objects, log, paths, keyOf } = own;
  const { chain, passedOver } = log.seen ?? nothing;
  if (!isKnown || own.commits >= tidyEvery) {
    const from = keyOf(paths.checkpoints).length + 1;
    const listed = objects.list(`${keyOf(paths.checkpoints)}/`);
    own.garbage = new Set(listed.map((key) => key.slice(from).split("/")[0] ?? ""));
    own.commits = 0;
  }
  const nameOf = (one: Pick<LoggedCheckpoint, "cut" | "generation">) =>
    checkpointName(one.cut, one.generation);
  const names = new Set([...own.garbage, ...chain.map(nameOf)]);
  for (const one of passedOver) names.delete(nameOf(one)); // C5
  return [...names].sort();
}
