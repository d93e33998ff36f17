// Resolves the files of a job when the job is submitted, so that the run is tied to them:
// directories and patterns are replaced by the names of their files, and a model's module and
// vocabularies get the hashes of their contents.

import { isTable } from "../data/data-kinds.ts";
import { filesOf, tableFilesOf } from "../data/files.ts";
import { s3FilesOf } from "../data/remote/s3-list.ts";
import { withHashes } from "../data/transforms/vocabulary.ts";
import { withModule } from "../model/custom/custom-model.ts";
import type { JobSpec } from "./job.ts";

/**
 * Returns the job with its data files by name. @throws InputUnusableError where a path names no
 * file; StoreFailedError where an object store does not answer
 */
export async function withFiles(job: JobSpec): Promise<JobSpec> {
  const { evaluation } = job;
  const data = await namedFiles(job.data);
  if (evaluation === undefined) return { ...job, data };
  const { test } = evaluation;
  const tested = test && { test: await withNamed(test) };
  return { ...job, data, evaluation: { ...(await withNamed(evaluation)), ...tested } };
}

/**
 * Returns the job with the hash of its model's module, which it checks. @throws InvalidOptionError
 */
export function withModel(job: JobSpec): JobSpec {
  return job.model.kind === "custom" ? { ...job, model: withModule(job.model) } : job;
}

/** The section with the files of its data by name, if it has data of its own. */
async function withNamed<Section extends { data?: JobSpec["data"] | undefined }>(
  of: Section,
): Promise<Section> {
  return of.data === undefined ? of : { ...of, data: await namedFiles(of.data) };
}

/** Returns data with its files by name. @throws as `withFiles` */
export async function namedFiles(data: JobSpec["data"]): Promise<JobSpec["data"]> {
  if (data.kind === "synthetic") return data;
  const paths = await filesNamed(data, data.paths);
  if (data.kind === "criteo-tsv") return { ...data, paths };
  const { transforms } = data;
  return { ...data, paths, ...(transforms && { transforms: await withHashes(transforms) }) };
}

/** Returns the files that paths of this kind of data stand for. @throws as `withFiles` */
export async function filesNamed(
  data: Pick<JobSpec["data"], "kind">,
  paths: readonly string[],
): Promise<string[]> {
  const named = await s3FilesOf(paths);
  return isTable(data) ? tableFilesOf(named) : filesOf(named);
}
