// A lock file, so that one process at a time trains into a checkpoint directory: `osiris train`
// holds it while it runs, and a second process is refused while the first is alive. The lock of an
// exited process is ignored, and so is the lock of another machine, as its processes cannot be
// checked; then the fence (fence.ts) stops the older writer, as it always does in an object store.

import { join } from "node:path";
import { DirectoryHeldError } from "../../../src/errors/errors.ts";
import { type Disk, realDisk } from "../../../src/ports/disk.ts";
import { diskCode } from "../../../src/ports/disk-refusals.ts";
import { isObjectAddress } from "../../../src/ports/object-store.ts";
import { makeDurableDirectory, readWhole } from "../../disk/durable-files.ts";

/** The contents of the lock file: the process that holds a directory. */
interface Holder {
  readonly writer: string;
  /** Since when, as ISO date. */
  readonly since: string;
}

/** Attempts to lock a directory that other processes lock and release at the same moment. */
const attemptsMax = 10;

/**
 * Locks `directory`, which is created if missing, until the result is disposed of.
 * @throws DirectoryHeldError where another process of this machine holds it, unless `takeOver`
 */
export function holdDirectory(
  directory: string,
  options: { readonly takeOver: boolean; readonly disk?: Disk; readonly date?: Date },
): Disposable {
  const { takeOver, disk = realDisk, date = new Date() } = options;
  if (isObjectAddress(directory)) return { [Symbol.dispose]() {} };
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
    // A disk that fails this write fails checkpoints too, and their error names the cause.
    if (diskCode(error) === undefined) throw error;
  }
  return {
    [Symbol.dispose]() {
      if (holderAt(disk, path)?.writer === own.writer) disk.remove(path);
    },
  };
}

/** Creates the lock file; false: another process has created it. */
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

/** The holder; undefined: no lock file, or its process died before it wrote the contents. */
function holderAt(disk: Disk, path: string): Holder | undefined {
  try {
    const { writer, since } = JSON.parse(new TextDecoder().decode(readWhole(disk, path)));
    return typeof writer === "string" ? { writer, since: String(since) } : undefined;
  } catch {
    return undefined;
  }
}

/** Whether the writer is another live process of this machine. */
function livesBeside(writer: string, disk: Disk): boolean {
  const [machine, pid] = writer.split("-");
  const [thisMachine, thisPid] = disk.writer.split("-");
  return machine === thisMachine && pid !== thisPid && !disk.isGone(writer);
}

function pidOf(writer = ""): string {
  return writer.split("-")[1] ?? "unknown";
}
