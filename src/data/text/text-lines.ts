// The lines of a text file as a stream: the file is never whole in memory. A line is bytes, or a
// text in which each byte is one character (latin1), so that later hashes are over the file's own
// bytes, in any encoding.

import type { Hash } from "node:crypto";
import { closeSync, createReadStream, openSync, readSync } from "node:fs";
import { isAbsolute } from "node:path";
import { pipeline, Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { InputUnusableError, TrainingError } from "../../errors/errors.ts";
import { isAddress, shownPath } from "../remote/addresses.ts";
import { openWebFile } from "../remote/web-ranges.ts";
import { changed } from "../remote/web-requests.ts";
import { streamOf } from "../remote/web-stream.ts";
import { noTextBecause, withoutMark } from "./bytes/file-beginnings.ts";
import { chunkBytes, fileChunks } from "./bytes/file-chunks.ts";

/** Longest line that is read; a longer line is bad. This bounds the memory for one file. */
export const lineBytesMax = 0x10_0000;

/** A run of consecutive lines. */
export interface LineChunk {
  /** Number of the first line in the file, from 1. */
  readonly firstLine: number;
  /** Lines without line breaks; `undefined` for a line longer than `lineBytesMax`. */
  readonly lines: readonly (string | undefined)[];
  /** Bytes of the file read so far. */
  readonly bytesRead: number;
}

/**
 * The lines of a plain or gzip file, from its first, on a disk or a server. `hash` takes its text,
 * unpacked. @throws InputUnusableError, too where it is packed otherwise or no text of bytes;
 * StoreFailedError as `openWebFile`
 */
export async function* readLines(path: string, hash?: Hash): AsyncGenerator<LineChunk> {
  for await (const chunk of readByteLines(path, hash)) {
    const { firstLine, bytesRead } = chunk;
    yield { firstLine, lines: chunk.texts(), bytesRead };
  }
}

/** A run of consecutive lines in one piece of memory. Line breaks belong to no line. */
export class ByteLines {
  /** Number of the first line in the file, from 1. */
  readonly firstLine: number;
  readonly bytes: Buffer;
  readonly view: DataView;
  /** First byte of each line. */
  readonly begins: number[] = [];
  /** Byte behind each line; -1: it is longer than `lineBytesMax`. */
  readonly ends: number[] = [];
  /** Bytes of the file read so far. */
  readonly bytesRead: number;

  constructor(firstLine: number, bytes: Buffer, bytesRead: number) {
    this.firstLine = firstLine;
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    this.bytesRead = bytesRead;
  }

  get count(): number {
    return this.ends.length;
  }

  isEmpty(index: number): boolean {
    return this.begins[index] === this.ends[index];
  }

  isTooLong(index: number): boolean {
    return this.ends[index] === -1;
  }

  /** A line that is not too long, one character for each byte. */
  text(index: number): string {
    return this.bytes.toString("latin1", this.begins[index], this.ends[index]);
  }

  /** All lines, one character for each byte; `undefined` for a line that is too long. */
  texts(): (string | undefined)[] {
    const all = this.bytes.toString("latin1");
    return this.ends.map((end, i) => (end < 0 ? undefined : all.slice(this.begins[i], end)));
  }

  /** Adds the line from `begin` until `end`. */
  add(begin: number, end: number, isTooLong: boolean): void {
    const { bytes } = this;
    const isFirst = this.firstLine === 1 && this.count === 0;
    const start = isFirst ? end - withoutMark(bytes.subarray(begin, end)).length : begin;
    const hasReturn = end > start && bytes[end - 1] === 13;
    this.begins.push(start);
    this.ends.push(isTooLong ? -1 : hasReturn ? end - 1 : end);
  }
}

/** What a server said of a file when it was asked first. */
export interface KnownText {
  readonly bytes: number;
  readonly version: number | string;
}

/**
 * As `readLines`, of lines as bytes, which are valid until the next chunk. `known`: a file on a
 * server that is another one by now is refused.
 */
export async function* readByteLines(
  path: string,
  hash?: Hash,
  known?: KnownText,
): AsyncGenerator<ByteLines> {
  const { file, content, close } = await openText(path, known);
  let firstLine = 1;
  const joiner = new Joiner();
  let tail: Buffer = Buffer.alloc(0);
  let isTooLong = false;
  let isBegun = false;
  try {
    for await (const chunk of content) {
      const fault = isBegun ? undefined : noTextBecause(chunk);
      if (fault !== undefined) throw new Error(fault);
      isBegun = true;
      hash?.update(chunk as Buffer);
      const bytes = joiner.join(tail, chunk as Buffer);
      const lines = new ByteLines(firstLine, bytes, file.bytesRead);
      let start = 0;
      for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10, start)) {
        lines.add(start, end, isTooLong || end - start > lineBytesMax);
        isTooLong = false;
        start = end + 1;
      }
      tail = bytes.subarray(start);
      isTooLong ||= tail.length > lineBytesMax;
      if (isTooLong) tail = Buffer.alloc(0);
      yield lines;
      firstLine += lines.count;
    }
  } catch (cause) {
    throw unreadable(path, cause);
  } finally {
    close();
  }
  if (tail.length === 0 && !isTooLong) return;
  const last = new ByteLines(firstLine, tail, file.bytesRead);
  last.add(0, tail.length, isTooLong);
  yield last;
}

/** Puts the beginning of a line before the chunk with its rest, in memory that is used again. */
class Joiner {
  #memory: Buffer = Buffer.alloc(0);

  /** `tail` may lie in what was joined last. */
  join(tail: Buffer, chunk: Buffer): Buffer {
    if (tail.length === 0) return chunk;
    const length = tail.length + chunk.length;
    const memory = this.#memory.length < length ? Buffer.alloc(2 * length) : this.#memory;
    memory.set(tail, 0);
    memory.set(chunk, tail.length);
    this.#memory = memory;
    return memory.subarray(0, length);
  }
}

/** A text file that is open: how far it is read, and its bytes, unpacked. */
interface OpenText {
  readonly file: { readonly bytesRead: number };
  readonly content: AsyncIterable<Uint8Array>;
  close(): void;
}

async function openText(path: string, known?: KnownText): Promise<OpenText> {
  if (isAddress(path)) return openWebText(path, known);
  if (isGzipped(firstBytes(path))) {
    const file = createReadStream(path, { highWaterMark: chunkBytes });
    return { file, content: unpacked(file), close: () => void file.destroy() };
  }
  const file = { bytesRead: 0 };
  const content = fileChunks(path, (bytes) => {
    file.bytesRead += bytes;
  });
  return { file, content, close() {} }; // Whoever stops reading closes it.
}

async function openWebText(address: string, known?: KnownText): Promise<OpenText> {
  const web = await openWebFile(address);
  const isKnown = known === undefined || (web.size === known.bytes && web.tag === known.version);
  if (!isKnown) throw changed(web.path);
  const file = streamOf(web);
  const packed = isGzipped(web.head) && Readable.from(file.content, { objectMode: false });
  return { file, content: packed ? unpacked(packed) : file.content, close: file.close };
}

function unpacked(file: Readable): Readable {
  // The callback is empty because iterating over what is returned throws the same error.
  return pipeline(file, createGunzip({ chunkSize: chunkBytes }), () => {});
}

function isGzipped([first, second]: Uint8Array): boolean {
  return first === 0x1f && second === 0x8b;
}

function firstBytes(path: string): Uint8Array {
  const magic = new Uint8Array(2);
  try {
    const descriptor = openSync(path, "r");
    try {
      readSync(descriptor, magic, 0, 2, 0);
    } finally {
      closeSync(descriptor);
    }
  } catch (cause) {
    throw unreadable(path, cause);
  }
  return magic;
}

/** The error for a file that cannot be read. */
export function unreadable(path: string, cause: unknown): TrainingError {
  if (cause instanceof TrainingError) return cause; // It names the file already.
  const reason = cause instanceof Error ? cause.message : String(cause);
  const shown = shownPath(path);
  const isAbsent = (cause as { code?: unknown } | undefined)?.code === "ENOENT";
  const hint =
    isAbsent && !isAbsolute(path) && !isAddress(path)
      ? `; a relative path begins in the current directory, ${process.cwd()}`
      : "";
  const message = `Cannot read the data file ${shown}: ${reason}${hint}`;
  return new InputUnusableError(shown, message, { cause });
}
