// One process at a time trains into a checkpoint directory: `osiris train` holds it while it runs.
// A second process is refused while the first one lives. The hold of a process that is gone, or of
// another machine, whose processes cannot be seen here, counts no more: then the fence (fence.ts)
// ends whichever writes late.

import { join } from "node:path";
import { DirectoryHeldError } from "../../src/errors/errors.ts";
import { type Disk, realDisk } from "../../src/ports/disk.ts";
import { diskCode } from "../../src/ports/disk-refusals.ts";
import { makeDurableDirectory, readWhole } from "../disk/durable-files.ts";

/** Who holds a directory. */
interface Holder {
  readonly writer: string;
  /** Since when, as ISO date. */
  readonly since: string;
}

/** Attempts to hold a directory that others hold and let go of at the same moment. */
const attemptsMax = 10;

/**
 * Holds `directory`, which is made where it is missing, until the result is disposed of.
 * @throws DirectoryHeldError where another process of this machine holds it, unless `takeOver`
 */
export function holdDirectory(
  directory: string,
  options: { readonly takeOver: boolean; readonly disk?: Disk; readonly date?: Date },
): Disposable {
  const { takeOver, disk = realDisk, date = new Date() } = options;
  const path = join(directory, "training.json");
  const own: Holder = { writer: disk.writer, since: date.toISOString() };
  try {
    makeDurableDirectory(disk, directory);
    for (let attempt = 0; !wrote(disk, path, own); attempt++) {
      const holder = holderAt(disk, path);
      const lives = holder !== undefined && livesBeside(holder.writer, disk);
      if (attempt === attemptsMax || (lives && !takeOver)) {
        throw new DirectoryHeldError(directory, pidOf(holder?.writer), holder?.since ?? own.since);
      }
      disk.remove(path);
    }
  } catch (error) {
    // A disk that refuses this file refuses checkpoints, too: their error names the cause.
    if (diskCode(error) === undefined) throw error;
  }
  return {
    [Symbol.dispose]() {
      if (holderAt(disk, path)?.writer === own.writer) disk.remove(path);
    },
  };
}

/** Whether `path` was made; false: somebody else made it. */
function wrote(disk: Disk, path: string, holder: Holder): boolean {
  try {
    const file = disk.open(path, "exclusive");
    try {
      file.write(new TextEncoder().encode(JSON.stringify(holder)), 0);
    } finally {
      file.close();
    }
    return true;
  } catch (error) {
    if (diskCode(error) !== "EEXIST") throw error;
    return false;
  }
}

/** Undefined: nobody, or one that died before it wrote its name. */
function holderAt(disk: Disk, path: string): Holder | undefined {
  try {
    const { writer, since } = JSON.parse(new TextDecoder().decode(readWhole(disk, path)));
    return typeof writer === "string" ? { writer, since: String(since) } : undefined;
  } catch {
    return undefined;
  }
}

/** Whether the writer is another process that this one sees alive. */
function livesBeside(writer: string, disk: Disk): boolean {
  const [machine, pid] = writer.split("-");
  const [thisMachine, thisPid] = disk.writer.split("-");
  return machine === thisMachine && pid !== thisPid && !disk.isGone(writer);
}

function pidOf(writer = ""): string {
  return writer.split("-")[1] ?? "unknown";
}
