// The order of training: the splits, where samples come in the split order, and the groups of
// features that are deduplicated. Both depend on the job and its data only.

import {
  placeOfSample,
  readCacheMeta,
  readKeys,
  readPieces,
  readSampleBytes,
} from "../../../src/data/cache/cache-facts.ts";
import { cacheMemoryBytesMax } from "../../../src/data/cache/cache-reader.ts";
import type { CacheReport } from "../../../src/data/cache/prepare-cache.ts";
import { contentsOf, type RunContents } from "../../../src/data/contents.ts";
import { isStreamed, isTable, pieceNameOf } from "../../../src/data/data-kinds.ts";
import type { Dataset } from "../../../src/data/dataset.ts";
import { shownPath } from "../../../src/data/remote/addresses.ts";
import { cutOf, EpochOrder, lanesOf, splitSamplesOf } from "../../../src/data/sample-order.ts";
import { checkAligned, sessionSplits } from "../../../src/data/sessions/session-splits.ts";
import { piecesOf } from "../../../src/data/split.ts";
import { describeStarts } from "../../../src/data/split-starts.ts";
import { named } from "../../../src/data/text/faults.ts";
import { InputUnusableError } from "../../../src/errors/errors.ts";
import type { JobSpec } from "../../../src/job/job.ts";
import { shapesOf } from "../../../src/model/features.ts";
import type { Disk } from "../../../src/ports/disk.ts";
import type { GroupChoice } from "../generation-schema.ts";
import type { DatasetPlan } from "../generation-spec.ts";
import { chooseGroups } from "./choose-groups.ts";
import { openDatasets } from "./open-datasets.ts";

/**
 * The splits, if the samples come in the split order: a function of the job and the data.
 * `trained`: the training part of the data.
 * @throws InputUnusableError where samples without a cache lie in pieces too large for a reader
 */
export async function splitsFor(
  job: JobSpec,
  training: CacheReport,
  trained: DatasetPlan,
  disk: Disk,
  readerBytesMax: number,
): Promise<Pick<RunContents, "splitSamples" | "splits">> {
  const { order, shuffle } = job.data;
  const { slices, seed } = job;
  const { path } = training;
  const pieces = readPieces(path, disk);
  const lanes = pieces === undefined ? 0 : lanesOf(pieces.bytesMax, slices, readerBytesMax);
  if (isStreamed(job.data) && lanes === 0) {
    throw pieceTooLarge(job.data, pieces?.bytesMax ?? 0, readerBytesMax);
  }
  if (!shuffle || order === "global") return {};
  const keepsOrder = order === "sessions" ? { keepsOrder: true } : {};
  if (order === "sessions" && !isStreamed(job.data)) {
    const dataset = await openTraining(job, trained, training, disk);
    try {
      const path = firstPath(job.data);
      const column = ("group" in job.data ? job.data.group : undefined) ?? "session";
      const placeOf = placeIn(training, trained, disk);
      const starts = await sessionSplits(dataset, { column, path, placeOf });
      return { splits: { ...describeStarts(starts), lanes: slices, ...keepsOrder } };
    } finally {
      dataset.close();
    }
  }
  const bytes = readSampleBytes(path, disk);
  if (order === undefined && !isStreamed(job.data) && bytes <= cacheMemoryBytesMax) return {};
  const { samples, split } = trained;
  if (pieces === undefined || lanes === 0) {
    return {
      splitSamples: splitSamplesOf({
        samples,
        bytes: (bytes * samples) / training.samples,
        slices,
      }),
    };
  }
  const keysOf = () => readKeys(path, disk);
  const starts =
    split === undefined
      ? pieces.starts
      : piecesOf({ seed, ...split }, training.samples, pieces.starts, keysOf);
  return { splits: { ...describeStarts(starts), lanes, ...keepsOrder } };
}

/** The measured groups of `data.ikjt`; undefined: the job has none. */
export async function groupsFor(
  job: JobSpec,
  plan: DatasetPlan,
  report: CacheReport,
  splits: Pick<RunContents, "splitSamples" | "splits">,
  disk: Disk,
): Promise<GroupChoice[] | undefined> {
  const { data, seed, slices } = job;
  if (data.ikjt === undefined) return undefined;
  const dataset = await openTraining(job, plan, report, disk, splits);
  try {
    const { batchSize, shuffle } = data;
    const { samples } = dataset;
    const split = cutOf(splits, slices, dataset.pieces);
    const order = new EpochOrder({ seed, shuffle, split }, { samples, batchSize });
    const features = shapesOf(job.model).map(({ name }) => name);
    const named = { path: firstPath(data), placeOf: placeIn(report, plan, disk) };
    await checkAligned(dataset, data.ikjt, features, named);
    return await chooseGroups({ spec: data.ikjt, features, dataset, order, batchSize, slices });
  } finally {
    dataset.close();
  }
}

/**
 * Location of a training sample in its source, for messages; unknown where training uses a part of
 * the data.
 */
function placeIn(
  { path }: CacheReport,
  { split }: DatasetPlan,
  disk: Disk,
): (sample: number) => string | undefined {
  if (split !== undefined) return () => undefined;
  return (sample) => placeOfSample(readCacheMeta(path, disk), sample);
}

/** Opens the training part of the data only. The caller closes it. */
async function openTraining(
  job: JobSpec,
  plan: DatasetPlan,
  report: CacheReport,
  disk: Disk,
  splits: Pick<RunContents, "splitSamples" | "splits"> = {},
): Promise<Dataset> {
  const contents = { training: contentsOf(report), ...splits };
  const files = { job, data: { training: plan, contents, means: report.means } };
  const { training } = await openDatasets(files, disk);
  return training;
}

function pieceTooLarge(
  data: JobSpec["data"],
  bytes: number,
  readerBytesMax: number,
): InputUnusableError {
  const megabytes = (count: number) => `${Math.ceil(count / 2 ** 20)} MiB`;
  const piece = isTable(data) ? pieceNameOf(data) : "piece";
  const message =
    `A ${piece} of ${namesOf(data)} takes ${megabytes(bytes)} in memory, and a reader holds two, ` +
    `in ${megabytes(readerBytesMax)}: write smaller ones, or train with a cache`;
  return new InputUnusableError(firstPath(data), message);
}

function firstPath(data: JobSpec["data"]): string {
  const [path = ""] = data.kind === "synthetic" ? [] : data.paths;
  return shownPath(path);
}

export function namesOf(data: JobSpec["data"]): string {
  if (data.kind === "synthetic") return "generated";
  return named(data.paths);
}
