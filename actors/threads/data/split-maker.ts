// Makes the blocks of splits, for a worker's thread or a worker's process, which serve them.

import { startsIn } from "../../../src/data/cache/block-table.ts";
import { type IndexBlocks, openIndexBlocks } from "../../../src/data/cache/cache-reader.ts";
import { blocksOf } from "../../../src/data/open-samples.ts";
import { InputUnusableError } from "../../../src/errors/errors.ts";
import type { Split } from "../../../src/exchange/splits/split-frames.ts";
import type { SplitMaker } from "../../../src/exchange/splits/split-worker.ts";
import type { Disk } from "../../../src/ports/disk.ts";
import type { StreamOrigins } from "./stream-origins.ts";

/**
 * Creates a split maker, which opens the index of a stream at its first split. The caller closes
 * it.
 */
export function createSplitMaker(origins: StreamOrigins, disk: Disk): SplitMaker {
  const opened = new Map<string, IndexBlocks>();
  const open = async (stream: Split["stream"]): Promise<IndexBlocks> => {
    const present = opened.get(stream);
    if (present !== undefined) return present;
    const origin = origins[stream];
    if (origin === undefined) throw new RangeError(`There is no ${stream} data`);
    const index = openIndexBlocks(origin.path, disk, await blocksOf(origin));
    if (index.digest !== origin.digest) {
      index.close();
      throw otherSamples(origin.path);
    }
    opened.set(stream, index);
    return index;
  };
  return {
    async make({ stream, first, end }) {
      const { blocks, table } = await open(stream);
      if (end > table.blocks) throw new RangeError(`There is no block ${end - 1}`);
      const bytes = new Uint8Array(4 * (startsIn(table, { first, end }).at(-1) ?? 0));
      await blocks.read(bytes, { first, end });
      return { bytes, samples: table.firstOf(end) - table.firstOf(first) };
    },
    close() {
      for (const index of opened.values()) index.close();
    },
  };
}

function otherSamples(path: string): InputUnusableError {
  const message =
    `The index ${path} has other samples where a preprocessing worker runs than on the first host: ` +
    "let `data.cache` be one directory that hosts and workers share";
  return new InputUnusableError(path, message);
}
