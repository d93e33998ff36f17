// The ledger of a record store: which rows have a record, which rows were in a failed write, and
// the cut that the whole store equals. It is in memory, and on disk from a `sync` to the next
// write.
//
//   records.json     sealed: the stamp, the shards, and the hash of each shard's rows
//   shard-<n>.set    the rows of shard n that have a record
//
// Invariants
//   L1. records.json exists only while the records equal its stamp. It is removed, durably, before
//       the first write, and written again after the records and sets are on disk.
//   L2. Reading a row of a failed write throws until the row was written again.

import { createHash } from "node:crypto";
import { join } from "node:path";
import { createRowSet, type RowSet } from "../../../src/embedding/rows/row-set.ts";
import {
  CheckpointCorruptError,
  InputUnusableError,
  TierDiskFullError,
  TierReadError,
  TierWriteError,
} from "../../../src/errors/errors.ts";
import { type Disk, realDisk } from "../../../src/ports/disk.ts";
import { diskCode, isFullCode } from "../../../src/ports/disk-refusals.ts";
import { makeDurableDirectory, readWhole, replaceDurably } from "../../disk/durable-files.ts";
import { seal, unseal } from "../../disk/sealed-json.ts";
import type { RecordShard, RecordStoreOptions } from "./record-store.ts";

const format = 1;

export interface Ledger {
  /** The stamp of the cut whose records these are; undefined if they were changed since. */
  readonly stamp: string | undefined;
  /** The rows of shard `at` that have a record. */
  present(at: number): RowSet;
  /**
   * Sets found[i] = 1 where rows[i] has a record, else 0. Throws the error of a row's failed write.
   */
  find(at: number, rows: Int32Array, found: Uint8Array): void;
  /** Runs `body`, which writes `rows`, and marks the rows: present, or in doubt if it throws. */
  write(at: number, rows: Int32Array, body: () => void): void;
  /**
   * Drops the records of `rows`. The bytes that the store still has of them are never read again.
   */
  remove(at: number, rows: Int32Array): void;
  /** Removes the stamp: the records no longer equal it. */
  distrust(): void;
  /**
   * Makes everything durable under a stamp: `body` syncs the records, then the ledger is written.
   */
  sync(stamp: string, body: () => void): void;
}

interface Stamped {
  readonly stamp: string;
  readonly sets: RowSet[];
}

/**
 * Opens the ledger of a store's directory, and makes the directory where it is missing. The ledger
 * is empty for a `spill` store, and for a `durable` store without a valid stamp.
 *
 * @throws InputUnusableError where the directory holds records of other shards
 */
export function openLedger(options: RecordStoreOptions): Ledger {
  const { directory, shards, keep, disk = realDisk } = options;
  const path = join(directory, "records.json");
  onTier("write", "the tier's directory", directory, () => makeDurableDirectory(disk, directory));
  const found = keep === "durable" ? readStamped(disk, path, options) : undefined;
  const sets = found?.sets ?? shards.map(() => createRowSet());
  const doubts: Map<number, unknown>[] = shards.map(() => new Map());
  let stamp = found?.stamp;

  function distrust(): void {
    if (stamp === undefined) return;
    onTier("write", `the end of the stamp \`${stamp}\``, path, () => {
      disk.remove(path);
      disk.syncDirectory(directory);
    });
    stamp = undefined;
  }

  return {
    get stamp() {
      return stamp;
    },
    present: (at) => ofShard(sets, at),
    find(at, rows, found) {
      const set = ofShard(sets, at);
      const doubt = ofShard(doubts, at);
      for (let i = 0; i < rows.length; i++) {
        const row = rows[i] ?? 0;
        found[i] = set.has(row) ? 1 : 0;
        if (doubt.size > 0 && doubt.has(row)) throw doubt.get(row);
      }
    },
    write(at, rows, body) {
      const set = ofShard(sets, at);
      const doubt = ofShard(doubts, at);
      distrust();
      try {
        body();
      } catch (error) {
        for (const row of rows) doubt.set(row, error);
        throw error;
      }
      for (const row of rows) set.add(row);
      if (doubt.size > 0) for (const row of rows) doubt.delete(row);
    },
    remove(at, rows) {
      distrust();
      for (const row of rows) {
        ofShard(sets, at).delete(row);
        ofShard(doubts, at).delete(row);
      }
    },
    distrust,
    sync(next, body) {
      for (const doubt of doubts) for (const error of doubt.values()) throw error;
      body();
      const kept = shards.map((shard, at) => {
        const bytes = ofShard(sets, at).encode();
        const file = setPath(directory, at);
        onTier("write", `the rows of \`${shard.name}\``, file, () =>
          replaceDurably(disk, file, bytes),
        );
        return { ...shard, sha256: hashOf(bytes) };
      });
      const { text } = seal({ format, stamp: next, shards: kept });
      onTier("write", `the stamp \`${next}\``, path, () =>
        replaceDurably(disk, path, new TextEncoder().encode(text)),
      );
      stamp = next;
    },
  };
}

/** Shard `at` of a store. @throws RangeError */
export function ofShard<Shard>(shards: readonly Shard[], at: number): Shard {
  const shard = shards[at];
  if (shard === undefined) throw new RangeError(`There is no shard ${at} of ${shards.length}`);
  return shard;
}

/** Runs `body`. An error of the disk becomes a tier error. */
export function onTier<Result>(
  action: "read" | "write",
  what: string,
  path: string,
  body: () => Result,
): Result {
  try {
    return body();
  } catch (error) {
    const code = diskCode(error);
    if (code === undefined) throw error;
    throw refusal(action, what, path, code, { cause: error });
  }
}

/** The error of a call that failed with the system's `code`. */
export function refusal(
  action: "read" | "write",
  what: string,
  path: string,
  code: string,
  options?: ErrorOptions,
): TierDiskFullError | TierReadError | TierWriteError {
  if (isFullCode(code)) return new TierDiskFullError(what, path, code, options);
  const Refusal = action === "read" ? TierReadError : TierWriteError;
  return new Refusal(what, path, code, options);
}

/** Reads the state of the last `sync`; undefined if the store was written since, or is damaged. */
function readStamped(
  disk: Disk,
  path: string,
  { directory, shards }: RecordStoreOptions,
): Stamped | undefined {
  if (!disk.exists(path)) return undefined;
  const bytes = onTier("read", "the stamp", path, () => readWhole(disk, path));
  const found = unsealed(bytes, path);
  if (found === undefined || found.format !== format) return undefined;
  const shapes = (list: readonly RecordShard[]) =>
    JSON.stringify(list.map(({ name, rows, recordBytes }) => [name, rows, recordBytes]));
  if (shapes(found.shards) !== shapes(shards)) {
    throw new InputUnusableError(
      directory,
      `${directory} holds the records of other tables (${found.shards.length} shards, stamp ` +
        `\`${found.stamp}\`), expected those of this job: name another directory, or delete that one`,
    );
  }
  const sets: RowSet[] = [];
  for (const [at, { name, sha256 }] of found.shards.entries()) {
    const file = setPath(directory, at);
    const set = onTier("read", `the rows of \`${name}\``, file, () => readWhole(disk, file));
    if (hashOf(set) !== sha256) return undefined;
    sets.push(createRowSet(set));
  }
  return { stamp: found.stamp, sets };
}

interface StampFile {
  readonly format: number;
  readonly stamp: string;
  readonly shards: readonly (RecordShard & { readonly sha256: string })[];
}

function unsealed(bytes: Uint8Array, path: string): StampFile | undefined {
  try {
    return unseal(bytes, path) as StampFile;
  } catch (error) {
    if (error instanceof CheckpointCorruptError) return undefined;
    throw error;
  }
}

function setPath(directory: string, at: number): string {
  return join(directory, `shard-${at}.set`);
}

function hashOf(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
