// The files of a checkpoint store in a directory, for the threads that read and write parts. The
// layout is in manifest.ts.

import type { Disk } from "../../../src/ports/disk.ts";
import { onDisk, readWhole, sizeOf, temporarySuffix } from "../../disk/durable-files.ts";
import { filesOf } from "../../disk/held-files.ts";
import type { NewFile, PartPlace } from "./place.ts";
import { parseGenerationName, pathsOf, type StorePaths } from "./store-paths.ts";

/** The place of a directory, with its file system. */
export interface DirectoryPlace extends PartPlace {
  readonly disk: Disk;
}

export function directoryPlace(directory: string, disk: Disk, packBytes?: number): DirectoryPlace {
  const paths = pathsOf(directory);
  return {
    ...{ address: directory, disk, paths, packBytes },
    open: filesOf(disk).open,
    size: (path) => (disk.exists(path) ? sizeOf(disk, path) : undefined),
    newFile: (cut, generation, name) => {
      disk.makeDirectory(paths.checkpoint(cut, generation));
      return newFile(disk, paths.file(cut, generation, name));
    },
    newestGeneration: () => newestIn(disk, paths),
    takerOf: (generation) => takerOf(disk, paths.generation(generation)),
  };
}

/** A file under a temporary name until it is finished. */
function newFile(disk: Disk, path: string): NewFile {
  const temporary = path + temporarySuffix;
  const file = disk.open(temporary, "write");
  let isOpen = true;
  const close = () => {
    if (isOpen) file.close();
    isOpen = false;
  };
  return {
    write: (bytes, offset) => file.write(bytes, offset),
    close() {
      if (isOpen) file.sync();
      close();
    },
    finish: () => disk.rename(temporary, path),
    discard() {
      close();
      disk.remove(temporary);
    },
  };
}

function newestIn(disk: Disk, { generations }: StorePaths): number {
  const names = onDisk("read", generations, () => disk.list(generations));
  return names.reduce((newest, name) => Math.max(newest, parseGenerationName(name) ?? 0), 0);
}

/** The process that wrote a generation's record, and when. */
function takerOf(disk: Disk, path: string): string | undefined {
  try {
    const since = new Date(disk.modifiedMs(path)).toISOString();
    const { writer } = JSON.parse(new TextDecoder().decode(readWhole(disk, path)));
    return `${writerFor(String(writer), disk)} at ${since}`;
  } catch {
    return undefined; // The record is unfinished, or just removed.
  }
}

/** A writer's name (src/ports/disk-writer.ts) for people. */
export function writerFor(writer: string, disk: Pick<Disk, "writer">): string {
  const [machine, pid] = writer.split("-");
  const [thisMachine, thisPid] = disk.writer.split("-");
  if (pid === undefined) return "another writer";
  if (machine !== thisMachine) return `process ${pid} of another machine`;
  return pid === thisPid ? "this process" : `process ${pid} of this machine`;
}
