// Reads byte ranges of a file. The ranges of a row group's wanted columns are coalesced if they lie
// close together, so that a disk or server gets a few large reads instead of one per column
// (coalesced reads of DSI: Zhao et al., Understanding data storage and ingestion, ISCA 2022,
// section 7).
//
//   file     |..a..|gap|..b..|      gap       |..........c..........|
//   reads    [---------------]                [-------][-------][---]
//            one span, the gap thrown away    a large column in windows

import { open } from "node:fs/promises";
import { isAddress } from "../remote/addresses.ts";
import type { RangeCache } from "../remote/range-cache.ts";
import { openWebFile } from "../remote/web-ranges.ts";
import { unreadable } from "../text/text-lines.ts";
import { CorruptFile } from "./damage.ts";
import type { PieceMemory } from "./piece-memory.ts";

/** Padding after all bytes that are read, which decoders may load but never use. */
export const slackBytes = 8;

/** Random access to the bytes of a file. */
export interface RangeReader {
  /** Path of the file, for error messages. */
  readonly path: string;
  readonly size: number;
  /** Tag of a remote file (`WebFile.tag`); undefined for a local file. */
  readonly tag?: string | undefined;
  /**
   * Reads the bytes `start` until `end`, followed by `slackBytes`. `memory`: memory of that total
   * size to read into. @default new memory
   */
  read(start: number, end: number, memory?: Uint8Array): Promise<Uint8Array>;
  close(): Promise<void>;
}

/** Bytes wanted of a file, bytes read for them, and number of reads. */
export interface ReadCounts {
  wanted: number;
  read: number;
  reads: number;
}

/** Longest span of coalesced columns, and the window size in which a larger column is read. */
export const spanBytesMax = 1.25 * 2 ** 20;

/** Opens the file at `path`. `kept`: as of `openFrom`. @throws InputUnusableError */
export async function openRanges(path: string, kept?: RangeCache): Promise<RangeReader> {
  try {
    return await (isAddress(path) ? openWebRanges(path, kept) : openLocalRanges(path));
  } catch (cause) {
    throw unreadable(path, cause);
  }
}

/**
 * Opens the file at `path`, and returns what `open` makes of it; closes the file if `open` fails.
 * `kept`: where ranges of remote files are kept.
 * @throws InputUnusableError
 */
export async function openFrom<Opened>(
  path: string,
  open: (file: RangeReader) => Promise<Opened>,
  kept?: RangeCache,
): Promise<Opened> {
  const file = await openRanges(path, kept);
  try {
    return await open(file);
  } catch (error) {
    await file.close();
    throw error;
  }
}

async function openLocalRanges(path: string): Promise<RangeReader> {
  const file = await open(path, "r");
  try {
    const { size } = await file.stat();
    return {
      path,
      size,
      async read(start, end, memory) {
        const bytes = memory ?? new Uint8Array(end - start + slackBytes);
        for (let done = 0; done < end - start; ) {
          const { bytesRead } = await file.read(bytes, done, end - start - done, start + done);
          if (bytesRead === 0) throw new CorruptFile(`it ends at byte ${start + done} of ${end}`);
          done += bytesRead;
        }
        return bytes;
      },
      close: () => file.close(),
    };
  } catch (error) {
    await file.close();
    throw error;
  }
}

async function openWebRanges(address: string, kept?: RangeCache): Promise<RangeReader> {
  const file = await openWebFile(address);
  return {
    path: file.path,
    size: file.size,
    tag: file.tag,
    async read(start, end, memory) {
      const bytes = memory ?? new Uint8Array(end - start + slackBytes);
      const own = bytes.subarray(0, end - start);
      const place = kept?.pathOf(file, start, end);
      if (place !== undefined && kept?.read(place, own) === true) return bytes;
      own.set(await file.read(start, end));
      if (place !== undefined) kept?.write(place, own);
      return bytes;
    },
    async close() {},
  };
}

/** A byte range of a file, such as a column chunk. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/**
 * Opens a stream of the bytes of each range, in the order of `ranges`. Small ranges share reads,
 * which go into `memory` if it is given.
 */
export function openStreams(
  file: RangeReader,
  ranges: readonly ByteRange[],
  counts: ReadCounts,
  memory?: PieceMemory,
): ByteStream[] {
  const streams: ByteStream[] = [];
  for (const { start, end, places } of spansOf(ranges)) {
    const isLarge = end - start > spanBytesMax;
    const span = isLarge ? undefined : new Span(file, { start, end }, counts, memory);
    for (const place of places) {
      const range = ranges[place] as ByteRange;
      counts.wanted += range.end - range.start;
      streams[place] = new ByteStream(file, range, counts, span);
    }
  }
  return streams;
}

/**
 * The reads that streams of `ranges` will make. For a range longer than a window it is a lower
 * bound, because a page that crosses the end of a window is read again with the next window.
 */
export function plannedReads(ranges: readonly ByteRange[]): ByteRange[] {
  return spansOf(ranges).flatMap(({ start, end }) => {
    return Array.from({ length: Math.ceil((end - start) / spanBytesMax) }, (_, i) => {
      const first = start + i * spanBytesMax;
      return { start: first, end: Math.min(end, first + spanBytesMax) };
    });
  });
}

/**
 * Coalesces ranges into spans. `places`: indices of the ranges in a span. Only a single large range
 * makes a span longer than `spanBytesMax`.
 */
function spansOf(ranges: readonly ByteRange[]): (ByteRange & { readonly places: number[] })[] {
  const sorted = [...ranges.entries()].sort(([, a], [, b]) => a.start - b.start);
  const spans: { start: number; end: number; places: number[] }[] = [];
  for (const [place, { start, end }] of sorted) {
    const last = spans.at(-1);
    if (last === undefined || end - last.start > spanBytesMax) {
      spans.push({ start, end, places: [place] });
    } else {
      last.end = Math.max(last.end, end);
      last.places.push(place);
    }
  }
  return spans;
}

/** A read that several columns share. The first column that needs it starts it. */
class Span {
  readonly #file: RangeReader;
  readonly #counts: ReadCounts;
  readonly start: number;
  readonly #end: number;
  readonly #memory: PieceMemory | undefined;
  #bytes: Promise<Uint8Array> | undefined;

  constructor(
    file: RangeReader,
    { start, end }: ByteRange,
    counts: ReadCounts,
    memory: PieceMemory | undefined,
  ) {
    this.#memory = memory;
    this.#file = file;
    this.#counts = counts;
    this.start = start;
    this.#end = end;
  }

  bytes(): Promise<Uint8Array> {
    const memory = this.#memory;
    const [start, end] = [this.start, this.#end];
    this.#bytes ??= counted(
      this.#file,
      start,
      end,
      this.#counts,
      memory?.uint8(end - start + slackBytes),
    );
    return this.#bytes;
  }
}

/** A sequential stream of a column's bytes. */
export class ByteStream {
  readonly #file: RangeReader;
  readonly #end: number;
  readonly #counts: ReadCounts;
  readonly #span: Span | undefined;
  /** File offset of the next byte. */
  #at: number;
  #window: Uint8Array = new Uint8Array(slackBytes);
  /** File offsets of the window's first byte, and of its end. */
  #first: number;
  #last: number;

  constructor(
    file: RangeReader,
    { start, end }: ByteRange,
    counts: ReadCounts,
    span: Span | undefined,
  ) {
    this.#file = file;
    this.#counts = counts;
    this.#span = span;
    this.#end = end;
    this.#at = start;
    this.#first = start;
    this.#last = start;
  }

  /** Bytes not consumed yet. */
  get left(): number {
    return this.#end - this.#at;
  }

  /**
   * Returns the next bytes without consuming them: at least `count`, if that many are left,
   * followed by `slackBytes`. `skip` consumes bytes.
   */
  async peek(count: number): Promise<Uint8Array> {
    const wanted = Math.min(count, this.left);
    if (this.#at + wanted > this.#last) await this.#load(wanted);
    const from = this.#at - this.#first;
    return this.#window.subarray(from, this.#last - this.#first + slackBytes);
  }

  skip(count: number): void {
    this.#at += count;
  }

  async #load(wanted: number): Promise<void> {
    if (this.#span === undefined) {
      const last = Math.min(this.#end, this.#at + Math.max(wanted, spanBytesMax));
      this.#window = await counted(this.#file, this.#at, last, this.#counts);
      [this.#first, this.#last] = [this.#at, last];
    } else {
      const bytes = await this.#span.bytes();
      const from = this.#at - this.#span.start;
      this.#window = bytes.subarray(from, this.#end - this.#span.start + slackBytes);
      [this.#first, this.#last] = [this.#at, this.#end];
    }
  }
}

function counted(
  file: RangeReader,
  start: number,
  end: number,
  counts: ReadCounts,
  memory?: Uint8Array,
): Promise<Uint8Array> {
  counts.read += end - start;
  counts.reads++;
  return file.read(start, end, memory);
}
