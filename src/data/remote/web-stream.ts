// A file on a server, read from its first byte to its last: by ranges that are asked for ahead of
// whoever reads, as one answer at a time would leave the network idle between two of them.
//
//   file     |--taken--|--now--|~~asked~~|~~asked~~|      not asked for yet      |
//                              [---- window ------]
//
// The window begins small, so that a look at the first lines of a large file asks for little, and
// doubles with each range that is taken.

import type { WebFile } from "./web-ranges.ts";

/** How much is asked for ahead. */
export interface WindowSizes {
  /** Bytes that are asked for and not taken: at first, and at most. */
  readonly windowBytesMin: number;
  readonly windowBytesMax: number;
  /** Bytes of what is given on at once. */
  readonly chunkBytes: number;
}

/** Ranges of a window. */
const windowRanges = 4;

const usualSizes: WindowSizes = {
  windowBytesMin: 0x10_0000, // Ranges of 256 KiB.
  windowBytesMax: 0x100_0000, // Ranges of 4 MiB: a request costs as long as some 100 KiB take.
  chunkBytes: 0x4_0000, // As of a file on a disk.
};

/** A file that is being read. */
export interface WebStream {
  /** Bytes that were given on. */
  readonly bytesRead: number;
  /** The bytes in their order; rejects as `WebFile.read` does. Read once. */
  readonly content: AsyncGenerator<Buffer>;
  /** Lets go of what was asked for and not taken. */
  close(): void;
}

/** The bytes of a file from its first on. */
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

/** What is given on, and `close` at its end, whatever ends it. */
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
      range.catch(() => {}); // Whoever reads on is told when its turn comes.
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
