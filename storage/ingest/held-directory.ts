// One process at a time ingests into a directory: each says by a file that it is there. A process
// that was taken for ended, and was not, makes no position any more.

import { join } from "node:path";
import { IngestForeignError, InputUnusableError } from "../../src/errors/errors.ts";
import type { Cancel, Clock } from "../../src/ports/clock.ts";
import type { Disk } from "../../src/ports/disk.ts";
import { onDisk } from "../disk/durable-files.ts";

const lockPrefix = ".ingesting-";

/** A directory that this process holds. */
export interface HeldDirectory extends Disposable {
  /** @throws IngestForeignError where another process has taken the directory over */
  check(): void;
}

/** How often a process says that it is there, and how long it may be silent. */
const sayMs = 10_000;
const silentMsMax = 60_000;

/**
 * Holds the directory until it is disposed of. A process that has ended is known on its own
 * machine, and elsewhere by its silence.
 * @throws InputUnusableError where another process holds it
 */
export function holdDirectory(disk: Disk, home: string, clock: Clock): HeldDirectory {
  const own = join(home, `${lockPrefix}${disk.writer}`);
  onDisk("write", home, () => disk.open(own, "write").close());
  for (const name of disk.list(home)) {
    const path = join(home, name);
    if (!name.startsWith(lockPrefix) || path === own) continue;
    const isSilent = disk.modifiedMs(own) - disk.modifiedMs(path) > silentMsMax;
    if (isSilent || disk.isGone(name.slice(lockPrefix.length))) disk.remove(path);
    else {
      disk.remove(own);
      const message = `Cannot ingest into ${home}: another process does, or did a moment ago`;
      throw new InputUnusableError(home, `${message}; try again in ${silentMsMax / 1000} s`);
    }
  }
  const say = (): Cancel =>
    clock.after(sayMs, () => {
      if (disk.exists(own)) disk.touch(own);
      cancel = say();
    });
  let cancel = say();
  return {
    check() {
      if (disk.exists(own)) return;
      throw new IngestForeignError(home, "another process has taken it over");
    },
    [Symbol.dispose]() {
      cancel();
      try {
        disk.remove(own);
      } catch {
        // The next process sees that this one has ended, and this one may have failed for a reason.
      }
    },
  };
}
