// Reads ranges of a file: those of a row group's wanted columns, merged where they lie close
// together, so that a disk or a network is asked a few times and not once a column. DSI's coalesced
// reads: Zhao et al., Understanding data storage and ingestion, ISCA 2022, section 7.
//
//   file     |..a..|gap|..b..|      gap       |..........c..........|
//   reads    [---------------]                [-------][-------][---]
//            one span, the gap thrown away    a large column in windows

import { open } from "node:fs/promises";
import { isAddress } from "../remote/addresses.ts";
import { openWebFile } from "../remote/web-ranges.ts";
import { Damage } from "./damage.ts";
import type { PieceMemory } from "./piece-memory.ts";

/** Bytes behind the end of any bytes that are read, which readers may look at and do not use. */
export const slackBytes = 8;

/** Bytes of a file at places. */
export interface RangeReader {
  /** The file, as messages name it. */
  readonly path: string;
  readonly size: number;
  /** What its server says of its contents; undefined: it lies on a disk. */
  readonly tag?: string | undefined;
  /**
   * The bytes `start` until `end`, with `slackBytes` more behind them. `memory`: of so many bytes,
   * which they may fill. @default new memory
   */
  read(start: number, end: number, memory?: Uint8Array): Promise<Uint8Array>;
  close(): Promise<void>;
}

/** Bytes that were wanted of a file, and bytes that were read for them. */
export interface ReadCounts {
  wanted: number;
  read: number;
  reads: number;
}

/** Longest span of merged columns, and the window in which a larger column is read. */
export const spanBytesMax = 1.25 * 2 ** 20;

/**
 * The file at `path`, on a local disk or a web server. Rejects with the system's error, or as
 * `openWebFile` does.
 */
export async function openRanges(path: string): Promise<RangeReader> {
  if (isAddress(path)) return await openWebRanges(path);
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
          if (bytesRead === 0) throw new Damage(`it ends at byte ${start + done} of ${end}`);
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

async function openWebRanges(address: string): Promise<RangeReader> {
  const file = await openWebFile(address);
  return {
    path: file.path,
    size: file.size,
    tag: file.tag,
    async read(start, end, memory) {
      const bytes = memory ?? new Uint8Array(end - start + slackBytes);
      bytes.set(await file.read(start, end));
      return bytes;
    },
    async close() {},
  };
}

/** Where a column of a row group lies. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/**
 * For each range, in their order, its bytes as a stream. Small ranges share their reads, into
 * `memory` if there is one.
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
 * The reads that streams of `ranges` make. Of a range longer than a read these are the fewest: what
 * is left of a page at a window's end is read again with the next window.
 */
export function plannedReads(ranges: readonly ByteRange[]): ByteRange[] {
  return spansOf(ranges).flatMap(({ start, end }) => {
    return Array.from({ length: Math.ceil((end - start) / spanBytesMax) }, (_, i) => {
      const first = start + i * spanBytesMax;
      return { start: first, end: Math.min(end, first + spanBytesMax) };
    });
  });
}

/** Ranges, by their places, that one span has. Only a single large range makes a longer one. */
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

/** A read that several columns share; it is done when the first of them asks. */
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

/** The bytes of a column, from its first on. */
export class ByteStream {
  readonly #file: RangeReader;
  readonly #end: number;
  readonly #counts: ReadCounts;
  readonly #span: Span | undefined;
  /** Place in the file of the next byte. */
  #at: number;
  #window: Uint8Array = new Uint8Array(slackBytes);
  /** Places in the file of the window's first byte, and of the one behind its last. */
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

  /** Bytes that are left. */
  get left(): number {
    return this.#end - this.#at;
  }

  /**
   * The next bytes, at least `count` where so many are left, and `slackBytes` behind them. They
   * stay the next ones until `skip`.
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
