// The chain of manifests, and the fence that keeps late writers off it.
//
// Invariants
//   C1. A generation number is claimed once: its record is created exclusively. Only a claim that
//       failed on a full disk, and so began nothing, frees its number again.
//   C2. A generation is claimed before the newest checkpoint is searched for. A commit of an older
//       generation before the search is found by it; a later one is off the chain.
//   C3. If the writer is still the newest generation after its manifest is in place, the commit is
//       on the chain: a later claim searches later, and finds it.
//   C4. The chain is read from the generation records downward, never from the manifests' own
//       claims, so an unreadable manifest hides nothing behind it.
//   C5. A claim renames damaged checkpoints before it writes its record, which takes them off the
//       chain: `collect` deletes what is off the chain and has the name of a checkpoint.
//
//   newest record ─▶ its checkpoints, newest cut first ─▶ the checkpoint it continued from ─▶ …

import { StoreFailedError } from "../../../src/errors/errors.ts";
import type { Disk } from "../../../src/ports/disk.ts";
import { diskCode, isFull } from "../../../src/ports/disk-refusals.ts";
import { onDisk, readWhole } from "../../disk/durable-files.ts";
import type { Damage, Generation, Manifest } from "./checkpoint-store.ts";
import {
  type FoundDamage,
  firstUsable,
  isDamage,
  type Looking,
  lookAt,
} from "./look-at-checkpoint.ts";
import {
  decodeGeneration,
  encodeRecord,
  formatVersion,
  type GenerationRecord,
} from "./manifest.ts";
import { damagedSuffix, parseCheckpointName } from "./store-paths.ts";

/** A store's directory, and the job that owns it. */
export interface ChainPlace extends Looking {
  readonly disk: Disk;
}

/** Most lost races against other claimants in one call; more would mean an endless loop. */
const claimsMax = 1000;

/**
 * Claims the next generation and records its origin: the newest checkpoint of the chain that is not
 * among the hashes `passOver`, or the checkpoint with the hash `sha256`. The caller maps the disk's
 * errors. @throws CheckpointMissingError where no checkpoint of the chain has that hash
 */
export function claimGeneration(
  place: ChainPlace,
  sha256?: string,
  passOver: readonly string[] = [],
): Generation {
  const { disk, paths, jobIdentity } = place;
  const { generation, file } = claim(place); // C1
  try {
    const chain = walkChain(place, generation - 1); // C2
    const { latest, damaged } = firstUsable(place, chain, sha256, passOver);
    // Its writer may have died between rename and sync. Sync now, as this generation needs it.
    if (latest !== undefined) {
      disk.syncDirectory(paths.checkpoint(latest.cut, latest.generation));
    }
    const kept = sha256 === undefined ? putAside(place, damaged) : damaged; // C5
    const from =
      latest === undefined
        ? null
        : { cut: latest.cut, generation: latest.generation, sha256: latest.sha256 };
    const version = formatVersion;
    const { writer } = disk;
    file.write(encodeRecord({ version, generation, jobIdentity, from, writer }).bytes, 0);
    file.sync();
    disk.syncDirectory(paths.generations);
    return { generation, latest, damaged: kept };
  } catch (error) {
    if (isFull(error)) disk.remove(paths.generation(generation)); // C1
    throw error;
  } finally {
    file.close();
  }
}

/** Renames damaged checkpoints, so that `collect` leaves them until a person removes them. */
function putAside({ disk, paths }: ChainPlace, damaged: readonly FoundDamage[]): Damage[] {
  const kept = damaged.map(({ path, reason, of }): Damage => {
    if (of === undefined) return { path, reason };
    const directory = paths.checkpoint(of.cut, of.generation);
    if (!disk.exists(paths.manifest(of.cut, of.generation))) return { path, reason };
    disk.rename(directory, `${directory}${damagedSuffix}`);
    return { path, reason, kept: `${directory}${damagedSuffix}` };
  });
  if (kept.some((one) => one.kept !== undefined)) disk.syncDirectory(paths.checkpoints);
  return kept;
}

function claim(place: ChainPlace) {
  for (let attempt = 0; attempt < claimsMax; attempt++) {
    const generation = place.newestGeneration() + 1;
    try {
      return { generation, file: place.disk.open(place.paths.generation(generation), "exclusive") };
    } catch (error) {
      if (diskCode(error) !== "EEXIST") throw error;
    }
  }
  throw new StoreFailedError("claim a generation in", place.paths.generations);
}

/** The chain from `newest` down, newest first: usable manifests, and damage between them. */
export function* walkChain(
  place: ChainPlace,
  newest = place.newestGeneration(),
): Generator<Manifest | FoundDamage, void, undefined> {
  const cutsOf = committedCuts(place); // C4
  let cutMax = Number.POSITIVE_INFINITY;
  let hashMax: string | undefined;
  let hasUsable = false;
  for (let generation = newest; generation > 0; ) {
    const cuts = (cutsOf.get(generation) ?? []).filter((cut) => cut <= cutMax);
    for (const cut of cuts) {
      const found = lookAt(place, { cut, generation }, cut === cutMax ? hashMax : undefined);
      // A collection has removed the checkpoint since its name was listed, its manifest first.
      if ("reason" in found && !place.disk.exists(place.paths.manifest(cut, generation))) continue;
      hasUsable ||= !("reason" in found);
      yield found;
    }
    const record = readGeneration(place, generation);
    if (record === undefined) {
      if (cuts.length > 0) {
        yield { path: place.paths.generation(generation), reason: "it cannot be read" };
      }
      cutMax = Math.min(cutMax, cuts.at(-1) ?? cutMax);
      generation--;
    } else if (record.from === null) {
      return;
    } else {
      ({ cut: cutMax, sha256: hashMax, generation } = record.from);
      // A newer checkpoint of this generation exists, so the older one may have been collected.
      if (!hasUsable && !cutsOf.get(generation)?.includes(cutMax)) {
        yield { path: place.paths.manifest(cutMax, generation), reason: "it is not there" };
      }
    }
  }
}

/** Whether any committed checkpoint is still on disk, of any job. */
export function hasCheckpoints(place: Pick<ChainPlace, "disk" | "paths">): boolean {
  return committedCuts(place).size > 0;
}

/** The cuts with a manifest, by generation, newest first. */
function committedCuts({ disk, paths }: Pick<ChainPlace, "disk" | "paths">): Map<number, number[]> {
  const cuts = new Map<number, number[]>();
  const names = onDisk("read", paths.checkpoints, () => disk.list(paths.checkpoints));
  for (const name of names.reverse()) {
    const parsed = parseCheckpointName(name);
    if (parsed === undefined) continue;
    if (!disk.exists(paths.manifest(parsed.cut, parsed.generation))) continue;
    cuts.set(parsed.generation, [...(cuts.get(parsed.generation) ?? []), parsed.cut]);
  }
  return cuts;
}

/** A generation's record; undefined where it was not finished, or cannot be read. */
export function readGeneration(
  place: Pick<ChainPlace, "disk" | "paths">,
  generation: number,
): GenerationRecord | undefined {
  const path = place.paths.generation(generation);
  if (!place.disk.exists(path)) return undefined;
  try {
    const record = onDisk("read", path, () => decodeGeneration(readWhole(place.disk, path), path));
    const isInOrder = record.from === null || record.from.generation < generation;
    return record.generation === generation && isInOrder ? record : undefined;
  } catch (error) {
    if (isDamage(error)) return undefined;
    throw error;
  }
}
