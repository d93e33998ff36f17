// A large file that a command makes, and goes on with where an earlier one was stopped.
//
//   FILE.part        what is written of it
//   FILE.part.json   sealed: what it is made of, who writes it, and the last mark
//
// A mark says how far the file is written, and what is needed to go on from there. It is recorded
// once all bytes before it are on disk, so a mark holds after a kill and after a power cut. The
// file gets its name, and the record goes, when all of it is on disk.

import { dirname } from "node:path";
import { z } from "zod";
import { CheckpointCorruptError, InputUnusableError } from "../../src/errors/errors.ts";
import type { Disk, DiskFile } from "../../src/ports/disk.ts";
import { diskCode } from "../../src/ports/disk-refusals.ts";
import { readWhole, replaceDurably } from "./durable-files.ts";
import { seal, unseal } from "./sealed-json.ts";

/** What an unfinished file is called. */
export const unfinishedSuffix = ".part";
const recordSuffix = ".part.json";

/** How a file is made. */
export interface Making<Mark> {
  /** What decides its bytes. A file that was begun with other values is begun anew. */
  readonly of: Readonly<Record<string, string | number | boolean>>;
  readonly mark: z.ZodType<Mark>;
  /** Whether to begin anew, whatever is there. */
  readonly restart: boolean;
  /** Whose abortion leaves what has a mark. */
  readonly signal?: AbortSignal | undefined;
}

/** The file while it is made. */
export interface Unfinished<Mark> {
  readonly file: DiskFile;
  /** The last mark of the command that was stopped; undefined: the file begins. */
  readonly last: Mark | undefined;
  /** Records how far the file is written, once that is on disk. */
  save(mark: Mark): Promise<void>;
}

/** A file that was made, or went on. */
export interface Made {
  readonly bytes: number;
  /** Bytes that an earlier command had written; 0: none. */
  readonly resumedAt: number;
}

/**
 * Puts a file at `path`, whole or not at all. Where `body` is aborted or the disk refuses, what has
 * a mark stays for the next call; after any other error nothing does.
 * @throws InputUnusableError where the file cannot be written, or another process is writing it
 */
export async function writeResumable<Mark>(
  disk: Disk,
  path: string,
  making: Making<Mark>,
  body: (unfinished: Unfinished<Mark>) => Promise<void>,
): Promise<Made> {
  const [part, record] = [path + unfinishedSuffix, path + recordSuffix];
  let marked: { readonly mark: Mark; readonly bytes: number } | undefined;
  const save = (writer: string) => {
    const { mark = null, bytes = 0 } = marked ?? {};
    const { text } = seal({ version: 1, of: making.of, writer, bytes, mark });
    replaceDurably(disk, record, new TextEncoder().encode(text), disk.writer);
  };
  let isOurs = false;
  try {
    const found = foundAt(disk, path, making);
    isOurs = true;
    marked = found;
    const resumedAt = found?.bytes ?? 0;
    const file = disk.open(part, found === undefined ? "write" : "update");
    let bytes = 0;
    try {
      save(disk.writer);
      if (found !== undefined) file.truncate(found.bytes);
      await body({
        file,
        last: found?.mark,
        async save(mark) {
          await file.synced();
          marked = { mark, bytes: file.size() };
          save(disk.writer);
        },
      });
      file.sync();
      bytes = file.size();
    } finally {
      file.close();
    }
    disk.rename(part, path);
    disk.syncDirectory(dirname(path));
    disk.remove(record);
    return { bytes, resumedAt };
  } catch (error) {
    if (isOurs) {
      const isStopped = diskCode(error) !== undefined || making.signal?.aborted === true;
      if (isStopped && marked !== undefined) letGo(() => save(""));
      else for (const one of [part, record]) disk.remove(one);
    }
    if (diskCode(error) === undefined) throw error;
    // Without the call and the temporary name.
    const why = String(error instanceof Error ? error.message : error).replace(/, \w+ '.*$/, "");
    throw new InputUnusableError(path, `Cannot write ${path}: ${why}`, { cause: error });
  }
}

/** Bytes that a stopped command left of `path`, with a mark; 0: none. */
export function unfinishedBytes(disk: Disk, path: string): number {
  return recordAt(disk, path)?.bytes ?? 0;
}

const recordSchema = z.object({
  version: z.literal(1),
  of: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])),
  writer: z.string(),
  bytes: z.int().nonnegative(),
  mark: z.unknown(),
});

/** The last mark of an unfinished file that is made of the same. */
function foundAt<Mark>(disk: Disk, path: string, { of, mark: schema, restart }: Making<Mark>) {
  const found = recordAt(disk, path);
  if (found === undefined || restart) return undefined;
  const { writer, bytes } = found;
  if (writer !== "" && !disk.isGone(writer)) {
    const message =
      `${path} is being written by another process (${writer}): wait for it, ` +
      "or begin anew with `--restart` if it has ended";
    throw new InputUnusableError(path, message);
  }
  const mark = schema.safeParse(found.mark);
  const isSame = JSON.stringify(found.of) === JSON.stringify(of);
  if (!isSame || !mark.success || sizeOf(disk, path + unfinishedSuffix) < bytes) return undefined;
  return { mark: mark.data, bytes };
}

function recordAt(disk: Disk, path: string): z.output<typeof recordSchema> | undefined {
  const record = path + recordSuffix;
  if (!disk.exists(record) || !disk.exists(path + unfinishedSuffix)) return undefined;
  try {
    return recordSchema.safeParse(unseal(readWhole(disk, record), record)).data;
  } catch (error) {
    if (error instanceof CheckpointCorruptError) return undefined; // Begun anew.
    throw error;
  }
}

function sizeOf(disk: Disk, path: string): number {
  const file = disk.open(path, "read");
  try {
    return file.size();
  } finally {
    file.close();
  }
}

/** Tells that nobody writes any more, if the disk still takes it. */
function letGo(body: () => void): void {
  try {
    body();
  } catch (error) {
    if (diskCode(error) === undefined) throw error;
  }
}
