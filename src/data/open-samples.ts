// Opens the samples of a job's data: of their cache, or of the files themselves by their index.

import type { Disk } from "../ports/disk.ts";
import type { Means } from "./cache/cache-format.ts";
import { type CachedSamples, openCache, openIndex } from "./cache/cache-reader.ts";
import type { ResolvedDataOptions, TableShape } from "./options.ts";
import type { KeyColumn } from "./split-keys.ts";

/** What the samples were made of, and are made of again where they have no cache. */
export interface SamplesOrigin {
  readonly options: ResolvedDataOptions;
  readonly tables: readonly TableShape[];
  /** The column that splits the data. */
  readonly key?: KeyColumn | undefined;
}

/** How samples are opened. */
export interface OpenLimits {
  /** As `openCache`. */
  readonly means?: Means | undefined;
  /** Of a cache, in bytes. */
  readonly memoryBytesMax?: number | undefined;
}

/**
 * Opens the samples whose cache, or whose index, is the file at `path`. Close them.
 * @throws as `openCache`; reading samples without a cache throws InputUnusableError, too
 */
export async function openSamples(
  path: string,
  disk: Disk,
  { options, tables, key }: SamplesOrigin,
  { means, memoryBytesMax }: OpenLimits = {},
): Promise<CachedSamples> {
  if (options.kind !== "parquet" || options.streamed !== true) {
    return openCache(path, disk, memoryBytesMax, means);
  }
  const { parquetBlocks } = await import("./parquet/parquet-blocks.ts");
  const openBlocks = parquetBlocks.bind(undefined, { options, tables, key });
  return openIndex(path, disk, openBlocks, means);
}
