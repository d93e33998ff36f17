// Opens the datasets of a generation on its host: the caches that the first host has made, or the
// parts of them that are trained on, held out, and kept for the test.

import { readKeys } from "../../../src/data/cache/cache-keys.ts";
import type { DataContents } from "../../../src/data/contents.ts";
import type { Dataset } from "../../../src/data/dataset.ts";
import {
  type OpenLimits,
  openSamples,
  type SamplesOrigin,
} from "../../../src/data/open-samples.ts";
import { splitDataset } from "../../../src/data/split.ts";
import { keyColumnOf } from "../../../src/data/split-keys.ts";
import { InputUnusableError } from "../../../src/errors/errors.ts";
import type { JobSpec } from "../../../src/job/job.ts";
import { shapesOf } from "../../../src/model/features.ts";
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
export async function openDatasets(
  { data, job }: Pick<GenerationSpec, "data" | "job">,
  disk: Disk,
): Promise<Datasets> {
  const { training, evaluation, test, contents, means } = data;
  // In the split order the splits are all that is in memory, however small the data are.
  const isSplit = contents.splitSamples !== undefined || contents.splits !== undefined;
  const bytesMax = isSplit ? 0 : undefined;
  const { seed, evaluation: section } = job;
  const tables = shapesOf(job.model);
  const open = async (
    { path, split }: DatasetPlan,
    own: DataContents | undefined,
    options: JobSpec["data"] = job.data, // Held out of the training data.
    memoryBytesMax?: number,
  ) => {
    const { digest } = own ?? contents.training;
    const key =
      own === undefined || own === contents.training ? keyColumnOf(section?.split) : undefined;
    const limits = { means, memoryBytesMax };
    const dataset = await openSame(path, digest, disk, { options, tables, key }, limits);
    if (split === undefined) return dataset;
    return splitDataset(dataset, { seed, ...split }, () => readKeys(path, disk));
  };
  return {
    training: await open(training, contents.training, undefined, bytesMax),
    evaluation: evaluation && (await open(evaluation, contents.evaluation, section?.data)),
    test: test && (await open(test, contents.test, section?.test?.data)),
  };
}

async function openSame(
  path: string,
  digest: string,
  disk: Disk,
  origin: SamplesOrigin,
  limits: OpenLimits,
): Promise<Dataset> {
  const dataset = await openSamples(path, disk, origin, limits);
  if (dataset.digest !== digest) {
    dataset.close();
    const message =
      `The data cache ${path} has other samples on this host than on the first one: let ` +
      "`data.cache` be one directory that all hosts share, or give all of them the same files";
    throw new InputUnusableError(path, message);
  }
  return dataset;
}
