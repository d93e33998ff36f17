// Compacts the many files of a partition into few files with large row groups, partition by
// partition.
//
//   1  new files are written beside the old ones, under hidden names that readers ignore
//   2  they are read back: number of rows and digest of contents must equal those of the old files
//   3  a note that lists the renames and removals is written durably: it commits the compaction
//   4  new files are renamed to their names, old ones are removed, then the note
//
// C1: after a crash before 3, the old files are the table; the next compaction removes new files.
// C2: after a crash during 4, the next compaction completes step 4, which is idempotent.

import { statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { z } from "zod";
import {
  type Disk,
  InputUnusableError,
  isFileName,
  noFileName,
  onDisk,
  openRanges,
  type ProgressOptions,
  progressOf,
  readFooter,
  readWhole,
  realDisk,
  replaceDurably,
  tableFilesOf,
  temporarySuffix,
} from "../../../internal.ts";
import { type Codec, readyCodec } from "./codecs.ts";
import { ContentsDigest } from "./contents-digest.ts";
import { openParquetTable } from "./parquet-table.ts";
import { openGroupWriter, openSuffix } from "./parquet-writer.ts";
import { PartitionRows } from "./partitions.ts";
import { usualGroupRows } from "./write-warehouse.ts";

/** Options of `compactWarehouse`. */
export interface CompactOptions extends ProgressOptions {
  /** Most rows of a row group. @default 16384 */
  readonly groupRows?: number | undefined;
  /** Most rows of a file. @default 1048576 */
  readonly fileRows?: number | undefined;
  /** @default "snappy" */
  readonly codec?: Codec | undefined;
}

/** The result of `compactWarehouse`. */
export interface CompactReport {
  readonly partitions: readonly CompactedPartition[];
}

/** A compacted partition, before and after. */
export interface CompactedPartition {
  readonly directory: string;
  readonly rows: number;
  readonly filesBefore: number;
  readonly filesAfter: number;
  readonly rowGroupsBefore: number;
  readonly rowGroupsAfter: number;
  readonly bytesBefore: number;
  readonly bytesAfter: number;
}

const usualFileRows = 2 ** 20;
/** Name of the note, and prefix of new files that are not yet part of the table. */
const noteName = ".compaction.json";
const newPrefix = ".compacted-";

/**
 * Compacts each directory below `directory` that has more files or row groups than its rows need.
 * Rows keep their order. The next compaction completes or cleans up an interrupted one.
 * @throws InputUnusableError where a file cannot be read or copied; the table is then unchanged
 * @throws StoreFailedError where the disk fails
 */
export async function compactWarehouse(
  directory: string,
  options: CompactOptions = {},
): Promise<CompactReport> {
  const { disk = realDisk, codec = "snappy" } = options;
  await readyCodec(codec);
  if (statSync(directory, { throwIfNoEntry: false })?.isDirectory() !== true) {
    const message = `Expected the directory of a table to compact, but ${directory} is none`;
    throw new InputUnusableError(directory, message);
  }
  for (const home of filesByDirectory(directory).keys()) settle(disk, home);
  const partitions: CompactedPartition[] = [];
  for (const [home, files] of filesByDirectory(directory)) {
    const done = await compactPartition(disk, home, files, options);
    if (done !== undefined) partitions.push(done);
  }
  return { partitions };
}

const fileName = z.string().refine(isFileName, noFileName);

/** The note: the changes of a compaction whose new files are verified. */
const noteSchema = z.object({
  /** New files: temporary name and final name. */
  made: z.array(z.tuple([fileName, fileName])),
  removed: z.array(fileName),
});
type Note = z.output<typeof noteSchema>;

function filesByDirectory(directory: string): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const path of tableFilesOf([directory])) {
    if (path.endsWith(openSuffix)) continue; // An ingestion will rewrite this open end.
    found.set(dirname(path), [...(found.get(dirname(path)) ?? []), path]);
  }
  return found;
}

/**
 * Completes or cleans up an interrupted compaction, so that the directory has either the old or the
 * new files. @throws InputUnusableError where another compaction may be running
 */
function settle(disk: Disk, home: string): void {
  if (disk.exists(join(home, noteName))) carryOut(disk, home, noteIn(disk, join(home, noteName)));
  for (const name of disk.list(home)) {
    if (!name.startsWith(newPrefix)) continue;
    const writer = name.slice(newPrefix.length).replace(/\..*$/, "");
    if (writer !== disk.writer && !disk.isGone(writer)) {
      const message = `Cannot compact ${home}: another process may be compacting it`;
      throw new InputUnusableError(home, `${message}; if none is, remove ${join(home, name)}`);
    }
    onDisk("remove", home, () => disk.remove(join(home, name))); // C1
  }
}

/** Reads a note. @throws InputUnusableError where it is damaged, or names files elsewhere */
function noteIn(disk: Disk, path: string): Note {
  const bytes = onDisk("read", path, () => readWhole(disk, path));
  try {
    return noteSchema.parse(JSON.parse(Buffer.from(bytes).toString("utf8")));
  } catch (cause) {
    const message = `Cannot finish the compaction of ${path}: this file is damaged`;
    const advice = "if the old files still exist, remove it and the new files beside it";
    throw new InputUnusableError(path, `${message}; ${advice}`, { cause });
  }
}

/** Carries out a note's changes. C2 */
function carryOut(disk: Disk, home: string, { made, removed }: Note): void {
  onDisk("compact", home, () => {
    for (const [from, to] of made) {
      if (disk.exists(join(home, from))) disk.rename(join(home, from), join(home, to));
    }
    disk.syncDirectory(home);
    for (const name of removed) disk.remove(join(home, name));
    disk.syncDirectory(home);
    disk.remove(join(home, noteName));
    disk.syncDirectory(home);
  });
}

interface Facts {
  readonly rows: number;
  readonly rowGroups: number;
  readonly bytes: number;
}

async function compactPartition(
  disk: Disk,
  home: string,
  files: readonly string[],
  options: CompactOptions,
): Promise<CompactedPartition | undefined> {
  const { groupRows = usualGroupRows, fileRows = usualFileRows } = options;
  const before = await factsOf(files);
  const filesNeeded = Math.max(1, Math.ceil(before.rows / fileRows));
  const groupsNeeded = Math.ceil(before.rows / groupRows) + filesNeeded;
  if (files.length <= filesNeeded && before.rowGroups <= groupsNeeded) return undefined;
  const names: string[] = [];
  try {
    const expected = await rewrite(disk, home, files, names, options);
    const made = names.map((name) => join(home, name));
    await verify(made, expected, home);
    const after = await factsOf(made);
    const own = finalNames(files, expected.digest(), names.length);
    const note: Note = {
      made: names.map((name, i) => [name, own[i] ?? ""]),
      // The same rows in other row groups have the same names: a new file replaces the old one.
      removed: files.map((path) => basename(path)).filter((name) => !own.includes(name)),
    };
    options.signal?.throwIfAborted();
    onDisk("write", home, () => {
      disk.syncDirectory(home);
      replaceDurably(disk, join(home, noteName), Buffer.from(JSON.stringify(note)));
    });
    carryOut(disk, home, note);
    return {
      directory: home,
      rows: before.rows,
      filesBefore: files.length,
      filesAfter: made.length,
      rowGroupsBefore: before.rowGroups,
      rowGroupsAfter: after.rowGroups,
      bytesBefore: before.bytes,
      bytesAfter: after.bytes,
    };
  } catch (error) {
    if (!disk.exists(join(home, noteName))) {
      for (const name of names) disk.remove(join(home, name));
    }
    throw error;
  }
}

/**
 * Names of the new files, which readers sort: in the order of their rows, and before files that an
 * ingestion adds behind the last one of `files`, `part-0000000000000401.parquet`.
 */
function finalNames(files: readonly string[], digest: string, count: number): string[] {
  const [stem = "part"] = /^part-\d+(?=[-.])/.exec(basename(files.at(-1) ?? "")) ?? [];
  const digits = String(count - 1).length;
  return Array.from({ length: count }, (_, i) => {
    return `${stem}-${digest.slice(0, 12)}-${String(i).padStart(digits, "0")}.parquet`;
  });
}

async function factsOf(files: readonly string[]): Promise<Facts> {
  let facts: Facts = { rows: 0, rowGroups: 0, bytes: 0 };
  for (const path of files) {
    const file = await openRanges(path);
    try {
      const { rows, groups } = await readFooter(file);
      facts = {
        rows: facts.rows + rows,
        rowGroups: facts.rowGroups + groups.length,
        bytes: facts.bytes + file.size,
      };
    } finally {
      await file.close();
    }
  }
  return facts;
}

/** Writes the rows of `files` to new files; appends their names to `names`. Returns the digest. */
async function rewrite(
  disk: Disk,
  home: string,
  files: readonly string[],
  names: string[],
  options: CompactOptions,
): Promise<ContentsDigest> {
  const { groupRows = usualGroupRows, fileRows = usualFileRows, codec = "snappy" } = options;
  const progress = progressOf(options);
  const source = await openParquetTable(files);
  const digest = new ContentsDigest();
  const waiting = new PartitionRows(source.columns);
  const newFile = () => {
    const name = `${newPrefix}${disk.writer}.${names.length}${temporarySuffix}`;
    names.push(name);
    const file = onDisk("write", home, () => disk.open(join(home, name), "write"));
    return { file, writer: openGroupWriter(file, source.columns, codec), rows: 0 };
  };
  let part = newFile();
  const flush = () => onDisk("write", home, () => part.writer.write(waiting.take()));
  const end = () => {
    flush();
    onDisk("write", home, () => {
      part.writer.finish();
      part.file.sync();
    });
  };
  try {
    for await (const chunk of source.chunks()) {
      digest.add(chunk);
      for (let row = 0; row < chunk.rows; row++) {
        if (part.rows === fileRows) {
          end();
          part.file.close();
          part = newFile();
        }
        waiting.add(chunk.columns, row);
        part.rows++;
        if (waiting.count === groupRows) flush();
      }
      await progress.breathe();
    }
    end();
  } finally {
    part.file.close();
  }
  return digest;
}

/** @throws InputUnusableError where the new files' rows differ from the old ones */
async function verify(
  files: readonly string[],
  expected: ContentsDigest,
  home: string,
): Promise<void> {
  const found = new ContentsDigest();
  for await (const chunk of (await openParquetTable(files)).chunks()) found.add(chunk);
  if (found.rows === expected.rows && found.digest() === expected.digest()) return;
  const counts = `${expected.rows} rows were written, and ${found.rows} read`;
  const message = `Cannot compact ${home}: the rows read back differ from the rows written`;
  throw new InputUnusableError(home, `${message} (${counts}); nothing was changed`);
}
