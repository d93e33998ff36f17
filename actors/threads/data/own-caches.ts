// Makes the caches and indexes of a run on a host that does not see those of the first host: they
// are a function of the job's data, so they have the same samples on each host, which is compared.

import { readCacheMeta } from "../../../src/data/cache/cache-facts.ts";
import { type GivenCache, prepareCache } from "../../../src/data/cache/prepare-cache.ts";
import { isIndexedByFile } from "../../../src/data/data-kinds.ts";
import { earlyIndexOf, isEarlyIndex } from "../../../src/data/file-index/early-index.ts";
import { indexedData } from "../../../src/data/file-index/index-file.ts";
import type { IndexHelp } from "../../../src/data/file-index/write-index.ts";
import type { SamplesOrigin } from "../../../src/data/open-samples.ts";
import { factsOfAll } from "../../../src/data/remote/file-facts.ts";
import type { JobSpec } from "../../../src/job/job.ts";
import type { Disk } from "../../../src/ports/disk.ts";
import { type DataPart, originOf } from "./index-program.ts";
import { type FoundCache, otherSamples } from "./stream-origins.ts";

/** The task of a thread that makes caches. */
export interface CacheTask {
  readonly program: "cache";
  readonly job: JobSpec;
  readonly caches: readonly FoundCache[];
}

/**
 * Makes those of the caches that are not there, under the names that they have on the first host.
 * @throws as `prepareCache`
 * @throws InputUnusableError where the samples are others than on the first host
 */
export async function makeCaches(
  { job, caches }: Pick<CacheTask, "job" | "caches">,
  disk: Disk,
  onProgress: (fraction: number) => void,
  helpFor: (part: DataPart) => IndexHelp,
): Promise<void> {
  const tell = ({ fraction }: { readonly fraction: number }) => onProgress(fraction);
  for (const { part, path, digest } of caches) {
    const origin = originOf(job, part);
    if (origin === undefined) throw new RangeError(`There is no ${part} data`);
    const { options, tables, key } = origin;
    const prepare = (given: GivenCache) =>
      prepareCache(options, tables, disk, tell, key, helpFor(part), given);
    const made = isEarlyIndex(path)
      ? await makeEarly(path, origin, disk, prepare)
      : await prepare({ path });
    if (made?.digest !== digest) {
      disk.remove(path);
      throw otherSamples(path);
    }
  }
}

/**
 * The early index at a path, with the indexes of all files: this host neither knows which files the
 * first steps read, nor sees the indexes that the first host makes.
 */
async function makeEarly(
  path: string,
  { options, ...rest }: SamplesOrigin,
  disk: Disk,
  prepare: (given: GivenCache) => Promise<unknown>,
): Promise<{ readonly digest: string } | undefined> {
  if (disk.exists(path)) return readCacheMeta(path, disk);
  if (!isIndexedByFile(options)) return undefined;
  await prepare({});
  const data = indexedData({ options, ...rest, disk });
  return (await earlyIndexOf(data, await factsOfAll(options.paths), path))?.meta;
}
