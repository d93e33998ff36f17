// The lines of a text file as a stream: the file is never whole in memory. Each byte becomes one
// character (latin1), so that later hashes are over the file's own bytes, in any encoding.

import type { Hash } from "node:crypto";
import { closeSync, createReadStream, openSync, readSync } from "node:fs";
import { pipeline } from "node:stream";
import { createGunzip } from "node:zlib";
import { InputUnusableError } from "../../errors/errors.ts";

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
  const { file, content } = openText(path);
  let firstLine = 1;
  let tail = "";
  let isTooLong = false;
  try {
    for await (const chunk of content) {
      hash?.update(chunk as Buffer);
      const text: string = tail + (chunk as Buffer).toString("latin1");
      const lines: (string | undefined)[] = [];
      let start = 0;
      for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", start)) {
        lines.push(isTooLong || end - start > lineBytesMax ? undefined : trim(text, start, end));
        isTooLong = false;
        start = end + 1;
      }
      tail = text.slice(start);
      isTooLong ||= tail.length > lineBytesMax;
      if (isTooLong) tail = "";
      if (firstLine === 1 && lines[0] !== undefined) lines[0] = withoutByteOrderMark(lines[0]);
      yield { firstLine, lines, bytesRead: file.bytesRead };
      firstLine += lines.length;
    }
  } catch (cause) {
    throw unreadable(path, cause);
  }
  if (tail === "" && !isTooLong) return;
  const last = trim(tail, 0, tail.length);
  const whole = firstLine === 1 ? withoutByteOrderMark(last) : last;
  yield { firstLine, lines: [isTooLong ? undefined : whole], bytesRead: file.bytesRead };
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

function trim(text: string, start: number, end: number): string {
  return text.slice(start, end > start && text.charCodeAt(end - 1) === 13 ? end - 1 : end);
}

function withoutByteOrderMark(line: string): string {
  return line.startsWith("\u00ef\u00bb\u00bf") ? line.slice(3) : line;
}

/** The error for a file that cannot be read. */
export function unreadable(path: string, cause: unknown): InputUnusableError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new InputUnusableError(path, `Cannot read the data file ${path}: ${reason}`, { cause });
}
