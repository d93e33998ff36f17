// A lock, so that one process at a time ingests into a directory: each process keeps a lock file
// and touches it as a heartbeat. A lock without heartbeats is taken over, as its process seems
// dead; if that process still runs, it no longer commits positions.

import { join } from "node:path";
import {
  type Cancel,
  type Clock,
  type Disk,
  IngestForeignError,
  InputUnusableError,
  onDisk,
} from "../../../internal.ts";

const lockPrefix = ".ingesting-";

/** A directory locked by this process. */
export interface HeldDirectory extends Disposable {
  /** @throws IngestForeignError where another process has taken the directory over */
  check(): void;
}

/** Heartbeat interval, and the silence after which a lock counts as abandoned. */
const sayMs = 10_000;
const silentMsMax = 60_000;

/** The time of a lock's last heartbeat; undefined if its holder has just removed it. */
function lastHeldMs(disk: Disk, path: string): number | undefined {
  try {
    return disk.modifiedMs(path);
  } catch (error) {
    if (disk.exists(path)) throw error;
    return undefined;
  }
}

/**
 * Locks the directory until the result is disposed of. The lock of a dead process is recognised by
 * its process id on the same machine, and by missing heartbeats on other machines.
 * @throws InputUnusableError where another process holds the lock
 */
export function holdDirectory(disk: Disk, home: string, clock: Clock): HeldDirectory {
  const lock = join(home, `${lockPrefix}${disk.writer}`);
  onDisk("write", home, () => disk.open(lock, "write").close());
  for (const name of disk.list(home)) {
    const path = join(home, name);
    if (!name.startsWith(lockPrefix) || path === lock) continue;
    const heldMs = lastHeldMs(disk, path);
    if (heldMs === undefined) continue;
    if (disk.modifiedMs(lock) - heldMs > silentMsMax || disk.isGone(name.slice(lockPrefix.length)))
      disk.remove(path);
    else {
      disk.remove(lock);
      const message = `Cannot ingest into ${home}: another process ingests into it, or just did`;
      throw new InputUnusableError(home, `${message}; try again in ${silentMsMax / 1000} s`);
    }
  }
  const say = (): Cancel =>
    clock.after(sayMs, () => {
      if (disk.exists(lock)) disk.touch(lock);
      cancel = say();
    });
  let cancel = say();
  return {
    check() {
      if (disk.exists(lock)) return;
      throw new IngestForeignError(home, "another process has taken it over");
    },
    [Symbol.dispose]() {
      cancel();
      try {
        disk.remove(lock);
      } catch {
        // The next process detects the abandoned lock, and this error must not hide an earlier one.
      }
    },
  };
}
