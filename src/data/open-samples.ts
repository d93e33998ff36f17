// Opens the samples of a job's data, from their cache or, by an index, from the source itself.

import assert from "node:assert/strict";
import type { Disk } from "../ports/disk.ts";
import type { Means } from "./cache/cache-format.ts";
import { type CachedSamples, type OpenBlocks, openCache, openIndex } from "./cache/cache-reader.ts";
import { isStreamed, isTable } from "./data-kinds.ts";
import type { ResolvedDataOptions, TableShape } from "./options.ts";
import type { KeyColumn } from "./split-keys.ts";

/** The source of the samples, from which they are encoded again if they have no cache. */
export interface SamplesOrigin {
  readonly options: ResolvedDataOptions;
  readonly tables: readonly TableShape[];
  /** The column that splits the data. */
  readonly key?: KeyColumn | undefined;
}

/** Options of `openSamples`. */
export interface OpenLimits {
  /** Means of the training data, as for `openCache`. */
  readonly means?: Means | undefined;
  /** Memory limit of a cache, in bytes. */
  readonly memoryBytesMax?: number | undefined;
  /** Opens the blocks of samples without a cache. @default they are made here, of the files */
  readonly openBlocks?: OpenBlocks | undefined;
}

/**
 * Opens the samples of the cache or index at `path`; the caller closes them.
 * @throws as `openCache`; reading samples without a cache also throws InputUnusableError
 */
export async function openSamples(
  path: string,
  disk: Disk,
  origin: SamplesOrigin,
  { means, memoryBytesMax, openBlocks }: OpenLimits = {},
): Promise<CachedSamples> {
  if (!isStreamed(origin.options)) return openCache(path, disk, memoryBytesMax, means);
  return openIndex(path, disk, openBlocks ?? (await blocksOf(origin)), means);
}

/** Returns the function that encodes the blocks of streamed samples from their source. */
export async function blocksOf({ options, tables, key }: SamplesOrigin): Promise<OpenBlocks> {
  if (options.kind === "synthetic") {
    const { generatedBlocks } = await import("./synthetic/generated-blocks.ts");
    return generatedBlocks.bind(undefined, { options, tables });
  }
  assert(isTable(options), "samples that have an index");
  const { tableBlocks } = await import("./tables/table-blocks.ts");
  return tableBlocks.bind(undefined, { options, tables, key });
}
