// The record stores of one device's tiers. Records of `spill` tables end with their generation;
// records of `durable` tables survive it, persisted under a checkpoint's stamp.
//
//   <root>/<owner>-<generation>-<device>    in use by a generation: spill, durable
//   <root>/<owner>-kept-<stamp>-<shards>    persisted: not owned by a generation
//
// `auto` selects the kind of store that wrote the persisted rows, so that a run can reuse them; an
// option that names another kind is refused.
//
// Invariants
//   R1. Persisted records are complete, stamped and closed: they are renamed to that name after
//       their last byte is written.
//   R2. A generation takes them over by a rename, so that it alone owns them and no older
//       generation can access them (law 3).
//   R3. Persisted records are used only if their stamp is that of the checkpoint that the
//       generation restores. All others are removed, and the store is filled from the checkpoint.

import { createHash } from "node:crypto";
import { endianness } from "node:os";
import { join } from "node:path";
import { TrainingError } from "../../src/errors/errors.ts";
import { expected } from "../../src/ports/check-options.ts";
import type { Disk } from "../../src/ports/disk.ts";
import { makeDurableDirectory } from "../disk/durable-files.ts";
import { ofShard, onTier } from "./records/ledger.ts";
import {
  type DiskStore,
  diskStores,
  openRecords,
  type RecordStoreKind,
  storesOn,
} from "./records/open-records.ts";
import type { CachedRecordShard } from "./records/record-cache.ts";
import type { Keep, RecordShard, RecordStore } from "./records/record-store.ts";

export interface TierRecordShard extends CachedRecordShard {
  readonly keep: Keep;
}

/** Names the directory of one device's tiers in one generation. */
export interface TierPlace {
  readonly root: string;
  /** Unique name of the owning checkpoint directory. */
  readonly owner: string;
  readonly generation: number;
  readonly device: number;
}

/** The persisted records found for a tier's durable shards. */
export interface FoundRows {
  /** Number of rows that need not be read from the checkpoint. */
  readonly rows: number;
  /** Why no rows were found. */
  readonly reason?: string;
}

export interface TierStore extends RecordStore {
  readonly kind: RecordStoreKind;
  /** Undefined where no shard is durable, or there is no checkpoint to restore. */
  readonly found: FoundRows | undefined;
  /** Whether the store has all rows of shard `at` that the checkpoint has. */
  isKept(at: number): boolean;
  /**
   * Closes the durable shards and persists them under the stamp of the last `sync`; they must
   * not be used any more. Returns the number of their rows.
   */
  persist(): Promise<number>;
}

export interface TierStoreOptions {
  readonly kind: RecordStoreKind | "auto";
  readonly shards: readonly TierRecordShard[];
  readonly place: TierPlace;
  /** Stamp of the checkpoint that the generation restores. */
  readonly stamp: string | undefined;
  /** As `RecordStoreOptions.pageCache`. */
  readonly pageCache?: boolean | undefined;
  readonly disk: Disk;
}

/** The directory of one device's tiers in one generation. */
export function tierDirectory({ root, owner, generation, device }: TierPlace): string {
  return join(root, `${owner}-${generation}-${device}`);
}

/** The kinds of stores in which an owner has persisted records, under any stamp. */
export function persistedStores(disk: Disk, { root, owner }: Pick<TierPlace, "root" | "owner">) {
  const names = disk.list(root).filter((name) => name.startsWith(`${owner}-kept-`));
  const stores = names.map((name): DiskStore => {
    return disk.exists(join(root, name, "rocksdb")) ? "rocksdb" : "file";
  });
  return [...new Set(stores)];
}

/**
 * Removes a leftover directory. Failures are ignored.
 */
export function removeLeftover(disk: Disk, path: string): void {
  try {
    disk.remove(path);
  } catch {
    // The next generation tries again.
  }
}

/**
 * Opens the stores of a tier, and takes over its persisted records.
 *
 * @throws InvalidOptionError where the persisted records are in another kind of store than `kind`
 */
export async function openTierStore(options: TierStoreOptions): Promise<TierStore> {
  const { shards, place, stamp, pageCache = true, disk } = options;
  const directory = tierDirectory(place);
  if (options.kind !== "memory") {
    removeLeftover(disk, directory);
    removeOld(disk, place, stamp);
  }
  const spilled = shards.filter(({ keep }) => keep === "spill");
  const kept = shards.filter(({ keep }) => keep === "durable");
  const { kind, unreadable } = await chosenStore(options, kept);
  const open = (keep: Keep, own: readonly TierRecordShard[]) =>
    openRecords(kind, { directory: join(directory, keep), keep, shards: own, pageCache, disk });
  const persistedPath = (of: string) => join(place.root, keptName(place, of, kind, kept));
  const spill = spilled.length === 0 ? undefined : await open("spill", spilled);
  const taken =
    kept.length === 0
      ? undefined
      : await openTaken(options, directory, persistedPath, () => open("durable", kept));
  const durable = taken?.store;
  const rowsKept = () => kept.reduce((sum, _, at) => sum + (durable?.count(at) ?? 0), 0);
  const route = shards.map((shard) => {
    const [store, own] = shard.keep === "spill" ? [spill, spilled] : [durable, kept];
    if (store === undefined) throw new RangeError(`The tier has no store for ${shard.name}`);
    return {
      store,
      at: own.indexOf(shard),
      isKept: store === durable && taken?.reason === undefined,
    };
  });
  const stores = [spill, durable].filter((store) => store !== undefined);
  let isPersisted = false;
  const reason = taken?.reason && (unreadable ?? taken.reason);
  const found = reason === undefined ? { rows: rowsKept() } : { rows: 0, reason };
  return {
    kind,
    found: stamp === undefined || taken === undefined ? undefined : found,
    isKept: (at) => ofShard(route, at).isKept,
    async persist() {
      const stamped = durable?.stamp;
      if (durable === undefined || stamped === undefined) return 0;
      const rows = rowsKept();
      const persistedAt = persistedPath(stamped);
      isPersisted = true;
      await durable.close();
      onTier("write", "durable rows", persistedAt, () => {
        disk.remove(persistedAt);
        disk.rename(join(directory, "durable"), persistedAt); // R1
        disk.syncDirectory(place.root);
      });
      return rows;
    },
    get stamp() {
      return durable?.stamp;
    },
    read(at, rows, records, found) {
      const own = ofShard(route, at);
      own.store.read(own.at, rows, records, found);
    },
    write(at, rows, records) {
      const own = ofShard(route, at);
      own.store.write(own.at, rows, records);
    },
    remove(at, rows) {
      const own = ofShard(route, at);
      own.store.remove(own.at, rows);
    },
    count(at) {
      const own = ofShard(route, at);
      return own.store.count(own.at);
    },
    scan(at, rowsMax) {
      const own = ofShard(route, at);
      return own.store.scan(own.at, rowsMax);
    },
    sync(next) {
      for (const store of stores) store.sync(next);
    },
    stats() {
      const all = stores.map((store) => store.stats());
      const sumOf = (count: "read" | "written" | "diskBytes") =>
        all.reduce((sum, one) => sum + one[count], 0);
      return { read: sumOf("read"), written: sumOf("written"), diskBytes: sumOf("diskBytes") };
    },
    async close() {
      for (const store of stores) if (store !== durable || !isPersisted) await store.close();
    },
  };
}

/**
 * Selects the kind of store: the requested one, else the one that has the persisted records, else
 * the first that this process can open. `unreadable`: why the persisted records cannot be used.
 */
async function chosenStore(
  { kind, place, stamp, disk }: TierStoreOptions,
  kept: readonly RecordShard[],
): Promise<{ readonly kind: RecordStoreKind; readonly unreadable?: string }> {
  if (kind === "memory") return { kind };
  const pathOf = (one: DiskStore) => join(place.root, keptName(place, stamp ?? "", one, kept));
  const persistedAt = onTier("read", "durable rows", place.root, () =>
    diskStores.filter((one) => stamp !== undefined && disk.exists(pathOf(one))),
  );
  const [other] = persistedAt;
  if (kind !== "auto") {
    if (other === undefined || persistedAt.some((one) => one === kind)) return { kind };
    const where = `${pathOf(other)}, or delete that directory`;
    throw expected(
      "tiers.ssd",
      `left out, or \`${other}\`, whose rows this run has in ${where}`,
      kind,
    );
  }
  const here = await storesOn(disk);
  const [usual = "file"] = here;
  const found = persistedAt.find((one) => here.includes(one));
  if (found !== undefined || other === undefined) return { kind: found ?? usual };
  return { kind: usual, unreadable: `they are in ${other}, which this machine cannot open` };
}

/** A durable store. `reason`: why it lacks the checkpoint's rows; undefined: it has them. */
interface Taken {
  readonly store: RecordStore;
  readonly reason: string | undefined;
}

/** Opens the durable store with the persisted records under the stamp, or an empty one. */
async function openTaken(
  { stamp, disk }: TierStoreOptions,
  directory: string,
  persistedPath: (stamp: string) => string,
  open: () => Promise<RecordStore>,
): Promise<Taken> {
  const own = join(directory, "durable");
  onTier("write", "the tier's directory", directory, () => {
    makeDurableDirectory(disk, directory);
  });
  const isTaken = stamp !== undefined && take(disk, persistedPath(stamp), own);
  let reason = isTaken
    ? "the persisted rows have no stamp"
    : "the tier directory has no rows under its stamp";
  try {
    const store = await open();
    if (isTaken && store.stamp === stamp) return { store, reason: undefined }; // R3
    if (store.stamp === undefined) return { store, reason };
    reason = "the persisted rows have the stamp of another checkpoint";
    await store.close();
  } catch (error) {
    // Damaged records are replaced from the checkpoint. If the disk fails, opening below fails too.
    if (!isTaken || !(error instanceof TrainingError)) throw error;
    reason = error.message;
  }
  onTier("write", "rows of another checkpoint", own, () => disk.remove(own));
  return { store: await open(), reason };
}

/** Takes over persisted records by a rename. False: there are none. R2 */
function take(disk: Disk, persistedAt: string, own: string): boolean {
  return onTier("read", "durable rows", persistedAt, () => {
    if (!disk.exists(persistedAt)) return false;
    disk.rename(persistedAt, own);
    return true;
  });
}

/**
 * Removes directories of killed older generations, and persisted records under other stamps.
 */
function removeOld(
  disk: Disk,
  { root, owner, generation }: TierPlace,
  stamp: string | undefined,
): void {
  for (const name of disk.list(root)) {
    const [of, kind, under] = name.split("-");
    if (of !== owner) continue;
    const isOver = kind === "kept" ? under !== shortOf(stamp) : Number(kind) < generation;
    if (isOver) removeLeftover(disk, join(root, name));
  }
}

/** The name contains a hash of everything that decides whether the bytes fit these shards. */
function keptName(
  { owner }: TierPlace,
  stamp: string,
  kind: RecordStoreKind,
  shards: readonly RecordShard[],
): string {
  const shapes = shards.map(({ name, rows, recordBytes }) => [name, rows, recordBytes]);
  const text = JSON.stringify([kind, endianness(), shapes]);
  const hash = createHash("sha256").update(text).digest("hex").slice(0, 16);
  return `${owner}-kept-${shortOf(stamp)}-${hash}`;
}

function shortOf(stamp: string | undefined): string | undefined {
  return stamp?.slice(0, 16);
}
