// Reads a remote file sequentially, with several range requests in flight ahead of the reader: one
// request at a time would leave the network idle between responses.
//
//   file     |--taken--|--now--|~~asked~~|~~asked~~|        not requested         |
//                              [---- window ------]
//
// The window starts small, so that reading only the first lines of a large file fetches little, and
// doubles with each range that is taken.

import type { WebFile } from "./web-ranges.ts";

/** Sizes of the read-ahead window. */
export interface WindowSizes {
  /** Bytes requested but not taken yet: initial and maximum. */
  readonly windowBytesMin: number;
  readonly windowBytesMax: number;
  /** Bytes per yielded chunk. */
  readonly chunkBytes: number;
}

/** Ranges per window. */
const windowRanges = 4;

const usualSizes: WindowSizes = {
  windowBytesMin: 0x10_0000, // Ranges of 256 KiB.
  windowBytesMax: 0x100_0000, // Ranges of 4 MiB: a request costs as much time as some 100 KiB.
  chunkBytes: 0x4_0000, // As for local files.
};

/** An open stream of a remote file. */
export interface WebStream {
  /** Bytes yielded so far. */
  readonly bytesRead: number;
  /** The bytes in order; can be iterated once. Rejects as `WebFile.read`. */
  readonly content: AsyncGenerator<Buffer>;
  /** Cancels requests in flight. */
  close(): void;
}

/** Opens a stream of a file's bytes. */
export function streamOf(file: WebFile, sizes: WindowSizes = usualSizes): WebStream {
  const ended = new AbortController();
  let bytesRead = 0;
  const count = (bytes: number) => {
    bytesRead += bytes;
  };
  const close = () => ended.abort();
  return {
    get bytesRead() {
      return bytesRead;
    },
    content: untilEnd(chunksOf(file, sizes, ended.signal, count), close),
    close,
  };
}

/** Yields the content, and calls `close` however the iteration ends. */
async function* untilEnd(content: AsyncGenerator<Buffer>, close: () => void) {
  try {
    yield* content;
  } finally {
    close();
  }
}

async function* chunksOf(
  file: WebFile,
  { windowBytesMin, windowBytesMax, chunkBytes }: WindowSizes,
  signal: AbortSignal,
  count: (bytes: number) => void,
): AsyncGenerator<Buffer> {
  const ranges: Promise<Uint8Array>[] = [];
  let [asked, taken, window] = [0, 0, windowBytesMin];
  const ask = () => {
    while (asked < file.size && asked - taken < window) {
      const end = Math.min(file.size, asked + window / windowRanges);
      const range = file.read(asked, end, signal);
      range.catch(() => {}); // The error is thrown when this range is taken.
      ranges.push(range);
      asked = end;
    }
  };
  while (taken < file.size) {
    ask();
    const bytes = await (ranges.shift() as Promise<Uint8Array>);
    taken += bytes.length;
    window = Math.min(windowBytesMax, 2 * window);
    ask();
    for (let from = 0; from < bytes.length; from += chunkBytes) {
      const length = Math.min(chunkBytes, bytes.length - from);
      count(length);
      yield Buffer.from(bytes.buffer, bytes.byteOffset + from, length);
    }
  }
}
