// Opens the samples of a job's data: of their cache, or of the files themselves by their index.

import assert from "node:assert/strict";
import type { Disk } from "../ports/disk.ts";
import type { Means } from "./cache/cache-format.ts";
import { type CachedSamples, type OpenBlocks, openCache, openIndex } from "./cache/cache-reader.ts";
import { isStreamed, isTable } from "./data-kinds.ts";
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
  /** Makes the blocks of samples without a cache. @default they are made here, of the files */
  readonly openBlocks?: OpenBlocks | undefined;
}

/**
 * Opens the samples whose cache, or whose index, is the file at `path`. Close them.
 * @throws as `openCache`; reading samples without a cache throws InputUnusableError, too
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

/** How the blocks of samples without a cache are made of the files. */
export async function blocksOf({ options, tables, key }: SamplesOrigin): Promise<OpenBlocks> {
  if (options.kind === "synthetic") {
    const { generatedBlocks } = await import("./synthetic/generated-blocks.ts");
    return generatedBlocks.bind(undefined, { options, tables });
  }
  assert(isTable(options), "samples that have an index");
  const { tableBlocks } = await import("./tables/table-blocks.ts");
  return tableBlocks.bind(undefined, { options, tables, key });
}
