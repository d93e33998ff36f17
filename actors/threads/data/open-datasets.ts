// Opens the datasets of a generation on a host: the caches that the first host has made, or the
// parts of them for training, evaluation and test.

import type { BlockTable } from "../../../src/data/cache/block-table.ts";
import type { BlockReader } from "../../../src/data/cache/blocks.ts";
import { readKeys } from "../../../src/data/cache/cache-facts.ts";
import type { OpenBlocks } from "../../../src/data/cache/cache-reader.ts";
import type { Dataset } from "../../../src/data/dataset.ts";
import { type OpenLimits, openSamples } from "../../../src/data/open-samples.ts";
import { splitDataset } from "../../../src/data/split.ts";
import type { Stream } from "../../../src/exchange/batch-ring.ts";
import type { Disk } from "../../../src/ports/disk.ts";
import type { DatasetPlan } from "../generation-spec.ts";
import {
  type DataFiles,
  otherSamples,
  type StreamOrigin,
  streamOriginsOf,
} from "./stream-origins.ts";

export interface Datasets {
  readonly training: Dataset;
  readonly evaluation: Dataset | undefined;
  readonly test: Dataset | undefined;
}

/** Source of sample blocks for data without a cache: the preprocessing service. */
export interface BlockService {
  blocksOf(stream: Stream, path: string, table: BlockTable): BlockReader;
}

/**
 * Opens the datasets that the readers of one host serve. The caller closes each. `service`: left
 * out, blocks of samples without a cache are made in this process.
 * @throws DataCacheDamagedError, StoreFailedError like `openCache`
 * @throws InputUnusableError where this host has other samples at that path than the first host
 */
export async function openDatasets(
  spec: DataFiles,
  disk: Disk,
  service?: BlockService,
): Promise<Datasets> {
  const { data, job } = spec;
  const { contents, means } = data;
  // In the split order only splits are in memory, even for small data. Sessions are far too small
  // to be read one by one.
  const { splits } = contents;
  const isSplit =
    contents.splitSamples !== undefined || (splits !== undefined && splits.keepsOrder !== true);
  const origins = streamOriginsOf(spec);
  const open = async (stream: Stream, plan: DatasetPlan, origin: StreamOrigin) => {
    const { path, split } = plan;
    const openBlocks: OpenBlocks | undefined =
      service && ((_, table) => service.blocksOf(stream, path, table));
    const memoryBytesMax = isSplit && stream === "training" ? 0 : undefined;
    const dataset = await openSame(origin, disk, { means, memoryBytesMax, openBlocks });
    if (split === undefined) return dataset;
    return splitDataset(dataset, { seed: job.seed, ...split }, () => readKeys(path, disk));
  };
  const { evaluation, test } = origins;
  return {
    training: await open("training", data.training, origins.training),
    evaluation:
      data.evaluation && evaluation && (await open("evaluation", data.evaluation, evaluation)),
    test: data.test && test && (await open("test", data.test, test)),
  };
}

async function openSame(origin: StreamOrigin, disk: Disk, limits: OpenLimits): Promise<Dataset> {
  const { path, digest } = origin;
  const dataset = await openSamples(path, disk, origin, limits);
  if (dataset.digest !== digest) {
    dataset.close();
    throw otherSamples(path);
  }
  return dataset;
}
