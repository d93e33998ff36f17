// Writes a large file resumably: a command continues from the last mark of an interrupted one.
//
//   FILE.part        the bytes written so far
//   FILE.part.json   sealed: the inputs that decide the bytes, the writing process, the last mark
//
// A mark says how far the file is written, and holds the state needed to continue from there. It is
// recorded once all bytes before it are on disk, so it is valid after a kill and after a power cut.
// Once the whole file is on disk, it is renamed to FILE and the record is removed.

import { dirname } from "node:path";
import { z } from "zod";
import { CheckpointCorruptError, InputUnusableError } from "../../src/errors/errors.ts";
import type { Disk, DiskFile } from "../../src/ports/disk.ts";
import { diskCode } from "../../src/ports/disk-refusals.ts";
import { readWhole, replaceDurably, sizeOf } from "./durable-files.ts";
import { seal, unseal } from "./sealed-json.ts";

/** Suffix of an unfinished file's name. */
export const unfinishedSuffix = ".part";
const recordSuffix = ".part.json";

/** The inputs of a resumable file, and how to resume it. */
export interface Making<Mark> {
  /**
   * The inputs that decide the file's bytes. An unfinished file with other inputs is started again
   * from byte 0.
   */
  readonly of: Readonly<Record<string, string | number | boolean>>;
  readonly mark: z.ZodType<Mark>;
  /** Whether to start from byte 0 even if a mark could be resumed. */
  readonly restart: boolean;
  /** When it aborts, the bytes up to the last mark stay, for the next call to resume. */
  readonly signal?: AbortSignal | undefined;
}

/** The file while it is being written. */
export interface Unfinished<Mark> {
  readonly file: DiskFile;
  /** The last mark of the interrupted command; undefined: start from byte 0. */
  readonly last: Mark | undefined;
  /** Flushes the file, then records the mark. */
  save(mark: Mark): Promise<void>;
}

/** The result of `writeResumable`. */
export interface Made {
  readonly bytes: number;
  /** The byte from which an interrupted command was resumed; 0: it was not. */
  readonly resumedAt: number;
}

/**
 * Puts a file at `path`, whole or not at all. If `body` is aborted or the disk fails, the bytes up
 * to the last mark stay for the next call; after any other error no file stays.
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
    // Leaves out the name of the system call and the temporary file name.
    const why = String(error instanceof Error ? error.message : error).replace(/, \w+ '.*$/, "");
    throw new InputUnusableError(path, `Cannot write ${path}: ${why}`, { cause: error });
  }
}

/** Bytes of `path` that an interrupted command wrote up to its last mark; 0: none. */
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

/** The last mark of an unfinished file with the same inputs; undefined: nothing to resume. */
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
    if (error instanceof CheckpointCorruptError) return undefined; // Start again from byte 0.
    throw error;
  }
}

/** Runs `body`, which clears the record's writer. A failure of the disk is ignored. */
function letGo(body: () => void): void {
  try {
    body();
  } catch (error) {
    if (diskCode(error) === undefined) throw error;
  }
}
