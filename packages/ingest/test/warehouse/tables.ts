// Helpers for tests of tables: a digest of the rows, and a disk of a process that dies.

import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { tableFilesOf } from "../../../../src/data/files.ts";
import { type Disk, type DiskFile, realDisk } from "../../../../src/ports/disk.ts";
import { ContentsDigest } from "../../warehouse/contents-digest.ts";
import { openParquetTable } from "../../warehouse/parquet-table.ts";

/** The count and the digest of the rows below a directory, in the order of its files. */
export async function contentsOf(directory: string): Promise<{ rows: number; digest: string }> {
  const digest = new ContentsDigest();
  const source = await openParquetTable(tableFilesOf([directory]));
  for await (const chunk of source.chunks()) digest.add(chunk);
  return { rows: digest.rows, digest: digest.digest() };
}

/** All files below a directory, including those that readers skip. */
export function allFiles(directory: string): string[] {
  return readdirSync(directory, { recursive: true, encoding: "utf8" })
    .filter((name) => statSync(join(directory, name)).isFile())
    .sort();
}

/** The real disk of a process that dies before its changing call number `dies`. */
export function mortalDisk(dies: number): Disk {
  let calls = 0;
  const change = <Result>(work: () => Result): Result => {
    if (++calls > dies) throw new Error("the process died");
    return work();
  };
  const fileOf = (file: DiskFile): DiskFile => ({
    ...file,
    write: (bytes, offset) => change(() => file.write(bytes, offset)),
    sync: () => change(() => file.sync()),
  });
  return {
    ...realDisk,
    open: (path, mode) => {
      return mode === "read"
        ? realDisk.open(path, mode)
        : change(() => fileOf(realDisk.open(path, mode)));
    },
    makeDirectory: (path) => change(() => realDisk.makeDirectory(path)),
    rename: (from, to) => change(() => realDisk.rename(from, to)),
    remove: (path) => change(() => realDisk.remove(path)),
    syncDirectory: (path) => change(() => realDisk.syncDirectory(path)),
  };
}
