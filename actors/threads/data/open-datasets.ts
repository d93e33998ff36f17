// Opens the datasets of a generation on its host: the caches that the first host has made, or the
// parts of them that are trained on, held out, and kept for the test.

import type { Means } from "../../../src/data/cache/cache-format.ts";
import { readKeys } from "../../../src/data/cache/cache-keys.ts";
import { openCache } from "../../../src/data/cache/cache-reader.ts";
import type { DataContents } from "../../../src/data/contents.ts";
import type { Dataset } from "../../../src/data/dataset.ts";
import { splitDataset } from "../../../src/data/split.ts";
import { InputUnusableError } from "../../../src/errors/errors.ts";
import type { Disk } from "../../../src/ports/disk.ts";
import type { DatasetPlan, GenerationSpec } from "../generation-spec.ts";

export interface Datasets {
  readonly training: Dataset;
  readonly evaluation: Dataset | undefined;
  readonly test: Dataset | undefined;
}

/**
 * The datasets that the readers of one host serve. Each is closed by closing it.
 * @throws DataCacheDamagedError, StoreFailedError as `openCache`
 * @throws InputUnusableError where this host has other samples there than the first host
 */
export function openDatasets(
  { data, job: { seed } }: Pick<GenerationSpec, "data" | "job">,
  disk: Disk,
): Datasets {
  const { training, evaluation, test, contents, means } = data;
  // In the split order the splits are all that is in memory, however small the data are.
  const bytesMax = contents.splitSamples === undefined ? undefined : 0;
  const open = ({ path, split }: DatasetPlan, own: DataContents | undefined, bytes?: number) => {
    const { digest } = own ?? contents.training; // Held out of the training data.
    const dataset = openSame(path, digest, disk, means, bytes);
    if (split === undefined) return dataset;
    return splitDataset(dataset, { seed, ...split }, () => readKeys(path, disk));
  };
  return {
    training: open(training, contents.training, bytesMax),
    evaluation: evaluation && open(evaluation, contents.evaluation),
    test: test && open(test, contents.test),
  };
}

function openSame(
  path: string,
  digest: string,
  disk: Disk,
  means: Means | undefined,
  memoryBytesMax: number | undefined,
): Dataset {
  const dataset = openCache(path, disk, memoryBytesMax, means);
  if (dataset.digest !== digest) {
    dataset.close();
    const message =
      `The data cache ${path} has other samples on this host than on the first one: let ` +
      "`data.cache` be one directory that all hosts share, or give all of them the same files";
    throw new InputUnusableError(path, message);
  }
  return dataset;
}
