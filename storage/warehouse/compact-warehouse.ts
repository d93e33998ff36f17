// Makes of the many files of a partition a few with large row groups, partition after partition.
//
//   1  the new files are written beside the old ones, under names that readers leave out
//   2  they are read again: as many rows, and the digest of the old ones' contents
//   3  a note of what is to be done gets its name: from now on the compaction counts
//   4  the new files get their names, the old ones go, then the note
//
// C1: before 3 the old files are the table, and what is new is removed by the next compaction.
// C2: from 3 on the next compaction does what is left of 4; each part of it may be done twice.

import { statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { z } from "zod";
import { readFooter } from "../../src/data/parquet/footer.ts";
import { openRanges } from "../../src/data/tables/byte-ranges.ts";
import { tableFilesOf } from "../../src/data/tables/table-files.ts";
import { InputUnusableError } from "../../src/errors/errors.ts";
import { type Disk, realDisk } from "../../src/ports/disk.ts";
import { onDisk, readWhole, replaceDurably, temporarySuffix } from "../disk/durable-files.ts";
import { isFileName, noFileName } from "../disk/names.ts";
import { type ProgressOptions, progressOf } from "../disk/progress.ts";
import { type Codec, readyCodec } from "./codecs.ts";
import { ContentsDigest } from "./contents-digest.ts";
import { openParquetTable } from "./parquet-table.ts";
import { openGroupWriter, openSuffix } from "./parquet-writer.ts";
import { PartitionRows } from "./partitions.ts";
import { usualGroupRows } from "./write-warehouse.ts";

/** Options of `compactWarehouse`. */
export interface CompactOptions extends ProgressOptions {
  /** Rows of a row group. @default 16384 */
  readonly groupRows?: number | undefined;
  /** Rows of a file. @default 1048576 */
  readonly fileRows?: number | undefined;
  /** @default "snappy" */
  readonly codec?: Codec | undefined;
}

/** The result of `compactWarehouse`. */
export interface CompactReport {
  readonly partitions: readonly CompactedPartition[];
}

/** What became of a partition. */
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
/** The note, and the beginning of what is not a part of the table so far. */
const noteName = ".compaction.json";
const newPrefix = ".compacted-";

/**
 * Compacts each directory of files below `directory` that has more files or row groups than its
 * rows need. Rows keep their order. A stopped or killed compaction is finished by the next one.
 * @throws InputUnusableError where a file cannot be read or copied; the table is as it was
 * @throws StoreFailedError where the disk refuses
 */
export async function compactWarehouse(
  directory: string,
  options: CompactOptions = {},
): Promise<CompactReport> {
  const { disk = realDisk, codec = "snappy" } = options;
  await readyCodec(codec);
  if (statSync(directory, { throwIfNoEntry: false })?.isDirectory() !== true) {
    const message = `Expected the directory of a table to compact, and ${directory} is none`;
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

/** What a compaction does once its new files are right. */
const noteSchema = z.object({
  /** New files: their temporary names, and their own. */
  made: z.array(z.tuple([fileName, fileName])),
  removed: z.array(fileName),
});
type Note = z.output<typeof noteSchema>;

function filesByDirectory(directory: string): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const path of tableFilesOf([directory])) {
    if (path.endsWith(openSuffix)) continue; // An ingestion writes it again.
    found.set(dirname(path), [...(found.get(dirname(path)) ?? []), path]);
  }
  return found;
}

/**
 * Finishes, or clears away, what a compaction left that has ended. Its directory has old files or
 * new ones. @throws InputUnusableError where a compaction may be at work
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

/** @throws InputUnusableError where it is damaged, or names files elsewhere */
function noteIn(disk: Disk, path: string): Note {
  const bytes = onDisk("read", path, () => readWhole(disk, path));
  try {
    return noteSchema.parse(JSON.parse(Buffer.from(bytes).toString("utf8")));
  } catch (cause) {
    const message = `Cannot finish the compaction that ${path} tells of: the note is damaged`;
    const advice = "remove it, and the new files beside it, if the old files are there";
    throw new InputUnusableError(path, `${message}; ${advice}`, { cause });
  }
}

/** C2 */
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
    const digest = expected.digest().slice(0, 12);
    const note: Note = {
      made: names.map((name, i) => [name, `part-${digest}-${i}.parquet`]),
      removed: files.map((path) => basename(path)),
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

/** Writes the rows of `files` to new files, whose `names` it adds. Returns their digest. */
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

/** @throws InputUnusableError where the new files do not have the rows of the old ones */
async function verify(
  files: readonly string[],
  expected: ContentsDigest,
  home: string,
): Promise<void> {
  const found = new ContentsDigest();
  for await (const chunk of (await openParquetTable(files)).chunks()) found.add(chunk);
  if (found.rows === expected.rows && found.digest() === expected.digest()) return;
  const counts = `${expected.rows} rows were written, and ${found.rows} read`;
  const message = `Cannot compact ${home}: its rows did not come back as they were written`;
  throw new InputUnusableError(home, `${message} (${counts}); nothing was changed`);
}
