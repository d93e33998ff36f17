// The lines of a text file as a stream: the file is never whole in memory. A line is bytes, or a
// text in which each byte is one character (latin1), so that later hashes are over the file's own
// bytes, in any encoding.

import type { Hash } from "node:crypto";
import { closeSync, createReadStream, openSync, readSync } from "node:fs";
import { pipeline } from "node:stream";
import { createGunzip } from "node:zlib";
import { InputUnusableError, TrainingError } from "../../errors/errors.ts";

/** Longest line that is read; a longer line is bad. This bounds the memory for one file. */
export const lineBytesMax = 0x10_0000;

const chunkBytes = 0x4_0000;

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
 * The lines of a plain or gzip file, from its first. `hash` takes its text, unpacked.
 * @throws InputUnusableError
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
    const start = isFirst && hasByteOrderMark(bytes, begin, end) ? begin + 3 : begin;
    const hasReturn = end > start && bytes[end - 1] === 13;
    this.begins.push(start);
    this.ends.push(isTooLong ? -1 : hasReturn ? end - 1 : end);
  }
}

/** As `readLines`, of lines as bytes, which are valid until the next chunk. */
export async function* readByteLines(path: string, hash?: Hash): AsyncGenerator<ByteLines> {
  const { file, content } = openText(path);
  let firstLine = 1;
  const joiner = new Joiner();
  let tail: Buffer = Buffer.alloc(0);
  let isTooLong = false;
  try {
    for await (const chunk of content) {
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

function openText(path: string) {
  const isGzip = startsAsGzip(path);
  const file = createReadStream(path, { highWaterMark: chunkBytes });
  if (!isGzip) return { file, content: file };
  // The callback is empty because iterating over `content` throws the same error.
  const content = pipeline(file, createGunzip({ chunkSize: chunkBytes }), () => {});
  return { file, content };
}

function startsAsGzip(path: string): boolean {
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
  return magic[0] === 0x1f && magic[1] === 0x8b;
}

function hasByteOrderMark(bytes: Buffer, begin: number, end: number): boolean {
  return end - begin >= 3 && bytes.readUIntBE(begin, 3) === 0xef_bbbf;
}

/** The error for a file that cannot be read. */
export function unreadable(path: string, cause: unknown): TrainingError {
  if (cause instanceof TrainingError) return cause; // It names the file already.
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new InputUnusableError(path, `Cannot read the data file ${path}: ${reason}`, { cause });
}
