// Makes data caches of any size for the benches from the repeated blocks of a small one.

import { join } from "node:path";
import { readCacheMeta, readSampleBytes } from "../../src/data/cache/cache-facts.ts";
import { blockSamples, headerBytes } from "../../src/data/cache/cache-format.ts";
import { readFrame, writeFrame } from "../../src/data/cache/cache-frame.ts";
import { prepareCache } from "../../src/data/cache/prepare-cache.ts";
import { dataOptions } from "../../src/data/options.ts";
import type { ModelSpec } from "../../src/model/options.ts";
import { realDisk } from "../../src/ports/disk.ts";

/** Generated samples: 5 MB for the model with 26 tables. */
const generatedSamples = 800 * blockSamples;

/** Two caches of the same samples: one that fits in memory, and one of at least a given size. */
export interface Caches {
  readonly small: string;
  readonly large: string;
  /** Samples of the large cache, and their bytes. */
  readonly samples: number;
  readonly bytes: number;
}

/** Writes both caches into `directory`. */
export async function makeCaches(
  directory: string,
  model: ModelSpec,
  sizes: { readonly small: number; readonly large: number },
): Promise<Caches> {
  const options = dataOptions.parse({
    ...{ kind: "synthetic", samples: generatedSamples, dense: model.dense },
    ...{ batchSize: 1, cache: directory },
  });
  const { path } = await prepareCache(options, model.tables, realDisk);
  const small = repeat(path, join(directory, "small.cache"), sizes.small);
  const large = repeat(path, join(directory, "large.cache"), sizes.large);
  return { ...large, small: small.path, large: large.path };
}

function repeat(from: string, path: string, bytesMin: number) {
  if (realDisk.exists(path)) {
    const { samples } = readCacheMeta(path, realDisk);
    return { path, samples, bytes: readSampleBytes(path, realDisk) };
  }
  const source = realDisk.open(from, "read");
  const file = realDisk.open(path, "write");
  const { table, meta, dataEnd } = readFrame(source);
  const blocks = new Uint8Array(dataEnd - headerBytes);
  source.read(blocks, headerBytes);
  const entries = Uint32Array.from({ length: 2 * table.blocks }, (_, i) => {
    return i % 2 === 0 ? table.wordsOf(i / 2) : table.crcOf((i - 1) / 2);
  });
  source.close();
  const times = Math.ceil(bytesMin / blocks.length);
  const tables = new Uint32Array(times * entries.length);
  for (let i = 0; i < times; i++) {
    file.write(blocks, headerBytes + i * blocks.length);
    tables.set(entries, i * entries.length);
  }
  const [samples, bytes] = [times * meta.samples, times * blocks.length];
  writeFrame(file, headerBytes + bytes, tables, { ...meta, samples });
  file.sync();
  file.close();
  return { path, samples, bytes };
}
