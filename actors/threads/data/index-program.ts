// The program of a thread that helps to index the files of a job: it claims one file after another
// (src/data/file-index/claims.ts) until there is none. An error ends it: the thread that prepares
// the data meets the same error, and reports it.

import { isIndexedByFile } from "../../../src/data/data-kinds.ts";
import { FileClaims } from "../../../src/data/file-index/claims.ts";
import { fileIndexOf, hasIndex, indexedData } from "../../../src/data/file-index/index-file.ts";
import { indexOwn } from "../../../src/data/file-index/write-index.ts";
import type { SamplesOrigin } from "../../../src/data/open-samples.ts";
import type { ResolvedTableOptions } from "../../../src/data/options.ts";
import { factsOf } from "../../../src/data/remote/file-facts.ts";
import { keyColumnOf } from "../../../src/data/split-keys.ts";
import type { JobSpec } from "../../../src/job/job.ts";
import { shapesOf } from "../../../src/model/features.ts";
import type { Disk } from "../../../src/ports/disk.ts";
import { isObjectAddress, type ObjectStore } from "../../../src/ports/object-store.ts";

/** The data sets of a job. */
export type DataPart = "training" | "evaluation" | "test";

/** The task of a thread that helps to index the files of a part. */
export interface IndexTask {
  readonly program: "index";
  readonly job: JobSpec;
  readonly part: DataPart;
  /** The memory of the claims, and the thread's number in it, from 2 on. */
  readonly claims: SharedArrayBuffer;
  readonly thread: number;
}

/** The origin of a part's samples; undefined: the job has no such data. */
export function originOf(job: JobSpec, part: DataPart): SamplesOrigin | undefined {
  const { evaluation: section } = job;
  const all = { training: job.data, evaluation: section?.data, test: section?.test?.data };
  const options = all[part];
  const key = part === "training" ? keyColumnOf(section?.split) : undefined;
  return options && { options, tables: shapesOf(job.model), key };
}

/** The options of a part whose files have indexes of their own; undefined: it has none. */
export function indexedPart(job: JobSpec, part: DataPart): ResolvedTableOptions | undefined {
  const { options } = originOf(job, part) ?? {};
  return options !== undefined && isIndexedByFile(options) ? options : undefined;
}

/** Indexes files until none is left. */
export async function runIndexing(task: IndexTask, disk: Disk): Promise<void> {
  const { job, part } = task;
  const origin = originOf(job, part);
  if (origin === undefined || !isIndexedByFile(origin.options)) return;
  const { options } = origin;
  const store = await indexStoreOf(job, disk);
  const data = indexedData({ ...origin, options, disk, store });
  const claims = new FileClaims(task.claims, task.thread);
  await indexOwn(claims, async (place) => {
    const file = { place, facts: await factsOf(options.paths[place] ?? "") };
    if (!hasIndex(data, file)) await fileIndexOf(data, file, claims);
  });
  await store?.close();
}

/**
 * The store in which the hosts of a job share the indexes of files: that of its checkpoints;
 * undefined: these lie in a directory, and the hosts share one for caches, too, or make their own.
 */
export async function indexStoreOf(
  { checkpoint: { directory } }: JobSpec,
  disk: Disk,
): Promise<ObjectStore | undefined> {
  if (!isObjectAddress(directory)) return undefined;
  const { openObjectStore } = await import("../../../src/objects/open-object-store.ts");
  return openObjectStore(directory, disk);
}
