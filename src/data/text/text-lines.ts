// Streams the lines of a text file, so that the file is never in memory as a whole. A line is
// bytes, or a text with one character per byte (latin1), so that hashes are over the file's own
// bytes in any encoding; UTF-16 is converted to UTF-8. In CSV a line is a record: a quoted field
// may contain line breaks (RFC 4180).

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
import { unpackZstdStream } from "../tables/zstd.ts";
import {
  chunkBytes,
  fileChunks,
  magicBytes,
  packingOf,
  utf8Pieces,
  withoutMark,
} from "./file-bytes.ts";

/** Longest line that is read; a longer line is bad. This bounds the memory for one file. */
export const lineBytesMax = 0x10_0000;

/** A run of consecutive lines. */
export interface LineChunk {
  /** Position of the chunk's first line among the lines of the file, from 1. */
  readonly firstLine: number;
  /** Lines without line breaks; `undefined` for a line longer than `lineBytesMax`. */
  readonly lines: readonly (string | undefined)[];
  /** Bytes of the file read so far. */
  readonly bytesRead: number;
  /**
   * The line number at which a text editor shows the start of line `index` of the chunk, from 1.
   * An editor also counts the line breaks inside quoted fields.
   */
  lineOf(index: number): number;
}

/**
 * Streams the lines of a local or remote file, plain or compressed with gzip or zstd. `delimiter`:
 * as for `readByteLines`. @throws InputUnusableError, also if the file is compressed otherwise or
 * has an unsupported encoding; StoreFailedError as `openWebFile`
 */
export async function* readLines(path: string, delimiter?: string): AsyncGenerator<LineChunk> {
  for await (const chunk of readByteLines(path, { delimiter })) {
    const { firstLine, bytesRead } = chunk;
    yield { firstLine, lines: chunk.texts(), bytesRead, lineOf: (i) => chunk.lineOf(i) };
  }
}

/** Consecutive lines in one buffer. Line breaks belong to no line. */
export class ByteLines {
  /** Position of the first line among the lines of the file, from 1. */
  readonly firstLine: number;
  readonly bytes: Buffer;
  readonly view: DataView;
  /** First byte of each line. */
  readonly begins: number[] = [];
  /** End of each line; -1 if it is longer than `lineBytesMax`. */
  readonly ends: number[] = [];
  /** Bytes of the file read so far. */
  readonly bytesRead: number;
  /** Number of line breaks inside quoted fields before the first line. */
  readonly #breaksBefore: number;
  /** For each line break inside a quoted field, the index of its line. */
  readonly #broken: number[] = [];

  constructor(firstLine: number, bytes: Buffer, bytesRead: number, breaksBefore = 0) {
    this.firstLine = firstLine;
    this.#breaksBefore = breaksBefore;
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    this.bytesRead = bytesRead;
  }

  get count(): number {
    return this.ends.length;
  }

  /** Number of line breaks inside quoted fields up to the end of the last line. */
  get breaks(): number {
    return this.#breaksBefore + this.#broken.length;
  }

  /** The line number at which a text editor shows the start of line `index`, from 1. */
  lineOf(index: number): number {
    const breaks = this.#broken.filter((line) => line < index).length;
    return this.firstLine + index + this.#breaksBefore + breaks;
  }

  isEmpty(index: number): boolean {
    return this.begins[index] === this.ends[index];
  }

  isTooLong(index: number): boolean {
    return this.ends[index] === -1;
  }

  /** A line that is not too long, one character per byte. */
  text(index: number): string {
    return this.bytes.toString("latin1", this.begins[index], this.ends[index]);
  }

  /** All lines, one character per byte; `undefined` for a line that is too long. */
  texts(): (string | undefined)[] {
    const all = this.bytes.toString("latin1");
    return this.ends.map((end, i) => (end < 0 ? undefined : all.slice(this.begins[i], end)));
  }

  /** Adds the line from `begin` until `end`. */
  add(begin: number, end: number, isTooLong: boolean): void {
    const { bytes } = this;
    for (let at = bytes.indexOf(10, begin); at >= 0 && at < end; at = bytes.indexOf(10, at + 1)) {
      this.#broken.push(this.count);
    }
    const isFirst = this.firstLine === 1 && this.count === 0;
    const start = isFirst ? end - withoutMark(bytes.subarray(begin, end)).length : begin;
    const hasReturn = end > start && bytes[end - 1] === 13;
    this.begins.push(start);
    this.ends.push(isTooLong ? -1 : hasReturn ? end - 1 : end);
  }
}

/** Size and version that a remote file must have. */
export interface KnownText {
  readonly bytes: number;
  readonly version: number | string;
}

export interface ReadLinesOptions {
  /** Receives the decompressed text of the file. */
  readonly hash?: Hash | undefined;
  /** Expected facts of a remote file; a changed file is refused. */
  readonly known?: KnownText | undefined;
  /** Delimiter of a CSV file, one ASCII character. Quoted fields may then contain line breaks. */
  readonly delimiter?: string | undefined;
}

/** As `readLines`, but with lines as bytes, which are valid until the next chunk. */
export async function* readByteLines(
  path: string,
  { hash, known, delimiter }: ReadLinesOptions = {},
): AsyncGenerator<ByteLines> {
  const { file, content, close } = await openText(path, known);
  const endOf = delimiter === undefined ? endOfLine : endOfRecord(delimiter.charCodeAt(0));
  let firstLine = 1;
  let breaks = 0;
  const joiner = new Joiner();
  let tail: Buffer = Buffer.alloc(0);
  let isTooLong = false;
  try {
    for await (const chunk of utf8Pieces(content)) {
      hash?.update(chunk);
      const bytes = joiner.join(tail, chunk);
      const lines = new ByteLines(firstLine, bytes, file.bytesRead, breaks);
      let start = 0;
      for (let end = endOf(bytes, 0, false); end >= 0; end = endOf(bytes, start, false)) {
        lines.add(start, end, isTooLong || end - start > lineBytesMax);
        isTooLong = false;
        start = end + 1;
      }
      tail = bytes.subarray(start);
      isTooLong ||= tail.length > lineBytesMax;
      if (isTooLong) tail = Buffer.alloc(0);
      yield lines;
      firstLine += lines.count;
      breaks = lines.breaks;
    }
  } catch (cause) {
    throw unreadable(path, cause);
  } finally {
    close();
  }
  if (tail.length === 0 && !isTooLong) return;
  const last = new ByteLines(firstLine, tail, file.bytesRead, breaks);
  let start = 0;
  for (let end = endOf(tail, 0, true); end >= 0; end = endOf(tail, start, true)) {
    last.add(start, end, false);
    start = end + 1;
  }
  if (start < tail.length || isTooLong) last.add(start, tail.length, isTooLong);
  yield last;
}

/**
 * Offset of the line break that ends the line from `start` on; -1 if the line ends beyond these
 * bytes, or with the file (`isEnd`).
 */
type EndOf = (bytes: Buffer, start: number, isEnd: boolean) => number;

const endOfLine: EndOf = (bytes, start) => bytes.indexOf(10, start);

/**
 * Creates the `EndOf` of CSV. A quote at the start of a field opens it, and the next quote that is
 * not doubled closes it, before a delimiter or a line break; line breaks between them belong to the
 * field. A field that is not closed within `lineBytesMax` ends with its line, so that it makes one
 * bad line, not many.
 */
function endOfRecord(delimiter: number): EndOf {
  /**
   * Offset of the first quote in the rest of the chunk, whose lines are requested in order; -1 if
   * there is none.
   */
  let quote = -1;
  return (bytes, start, isEnd) => {
    const lineEnd = bytes.indexOf(10, start);
    if (start === 0 || (quote >= 0 && quote < start)) quote = bytes.indexOf(34, start);
    if (lineEnd < 0 || quote < 0 || quote > lineEnd || !hasOddQuotes(bytes, quote, lineEnd)) {
      return lineEnd;
    }
    let at = start;
    while (at < bytes.length) {
      if (bytes[at] !== 34) {
        // No quote opens this field: it ends at the next delimiter, or ends the record.
        while (at < bytes.length && bytes[at] !== delimiter && bytes[at] !== 10) at++;
      } else {
        const close = closingQuote(bytes, at + 1);
        const isLong = (close < 0 ? bytes.length : close) - start > lineBytesMax;
        if (isLong || (close < 0 && isEnd)) return lineEnd;
        if (close < 0 || (close + 1 === bytes.length && !isEnd)) return -1;
        at = close + 1;
        if (bytes[at] === 13) at++;
        if (at < bytes.length && bytes[at] !== delimiter && bytes[at] !== 10) return lineEnd;
      }
      if (bytes[at] === 10) return at;
      at++;
    }
    return -1;
  };
}

/**
 * Whether the number of quotes from `first` until `end` is odd, so that a quoted field may be open
 * at `end`.
 */
function hasOddQuotes(bytes: Buffer, first: number, end: number): boolean {
  let isOdd = false;
  for (let at = first; at >= 0 && at < end; at = bytes.indexOf(34, at + 1)) isOdd = !isOdd;
  return isOdd;
}

/**
 * Offset of the quote that closes a field whose text begins at `from`; -1 if it is not in these
 * bytes.
 */
function closingQuote(bytes: Buffer, from: number): number {
  let at = bytes.indexOf(34, from);
  while (at >= 0 && bytes[at + 1] === 34) at = bytes.indexOf(34, at + 2);
  return at;
}

/** Prepends the start of a line to the chunk with its rest, in reused memory. */
class Joiner {
  #memory: Buffer = Buffer.alloc(0);

  /** `tail` may be a part of the last result. */
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

/** An open text file: its read position, and its decompressed bytes. */
interface OpenText {
  readonly file: { readonly bytesRead: number };
  readonly content: AsyncIterable<Uint8Array>;
  close(): void;
}

async function openText(path: string, known?: KnownText): Promise<OpenText> {
  if (isAddress(path)) return openWebText(path, known);
  const packing = packingOf(firstBytes(path));
  if (packing === "gzip") {
    const file = createReadStream(path, { highWaterMark: chunkBytes });
    return { file, content: gunzipped(file), close: () => void file.destroy() };
  }
  const file = { bytesRead: 0 };
  const content = fileChunks(path, (bytes) => {
    file.bytesRead += bytes;
  });
  // `close` does nothing: `fileChunks` closes the file when it ends or is abandoned.
  return { file, content: packing === "zstd" ? unpackZstdStream(content) : content, close() {} };
}

async function openWebText(address: string, known?: KnownText): Promise<OpenText> {
  const web = await openWebFile(address);
  const isKnown = known === undefined || (web.size === known.bytes && web.tag === known.version);
  if (!isKnown) throw changed(web.path);
  const packing = packingOf(web.head);
  const file = streamOf(web);
  const { content, close } = file;
  if (packing === "zstd") return { file, content: unpackZstdStream(content), close };
  if (packing !== "gzip") return { file, content, close };
  return { file, content: gunzipped(Readable.from(content, { objectMode: false })), close };
}

function gunzipped(file: Readable): Readable {
  // The callback is empty because iterating over what is returned throws the same error.
  return pipeline(file, createGunzip({ chunkSize: chunkBytes }), () => {});
}

function firstBytes(path: string): Uint8Array {
  const magic = new Uint8Array(magicBytes);
  try {
    const descriptor = openSync(path, "r");
    try {
      readSync(descriptor, magic, 0, magicBytes, 0);
    } finally {
      closeSync(descriptor);
    }
  } catch (cause) {
    throw unreadable(path, cause);
  }
  return magic;
}

/** The error of a file that cannot be read. */
export function unreadable(path: string, cause: unknown): TrainingError {
  if (cause instanceof TrainingError) return cause; // It names the file already.
  const reason = cause instanceof Error ? cause.message : String(cause);
  const shown = shownPath(path);
  const code = (cause as { code?: unknown } | undefined)?.code;
  let hint = "";
  if (code === "ENOENT" && !isAbsolute(path) && !isAddress(path)) {
    hint = `; a relative path begins in the current directory, ${process.cwd()}`;
  } else if (code === "EMFILE" || code === "ENFILE") {
    hint = "; all files that it may open are open: raise the limit (`ulimit -n`)";
  }
  const message = `Cannot read the data file ${shown}: ${reason}${hint}`;
  return new InputUnusableError(shown, message, { cause });
}
