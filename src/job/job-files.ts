// The files of a job by name, so that a run knows its files from when its job is submitted:
// directories and patterns stand for the data that is there, and the paths of a model's module and
// of vocabularies for their contents.

import { isTable } from "../data/data-kinds.ts";
import { tableFilesOf } from "../data/tables/table-files.ts";
import { filesOf } from "../data/text/files.ts";
import { withVocabularies } from "../data/transforms/vocabulary.ts";
import { withModule } from "../model/custom/custom-model.ts";
import type { JobSpec } from "./job.ts";

/** The job with its files by name. @throws InputUnusableError where a path names no file */
export function withFiles(job: JobSpec): JobSpec {
  const { data, evaluation } = job;
  if (evaluation === undefined) return { ...job, data: named(data) };
  const { test } = evaluation;
  const held = { ...withNamed(evaluation), ...(test && { test: withNamed(test) }) };
  return { ...job, data: named(data), evaluation: held };
}

/** The job with the hash of its model's module, checked. @throws InvalidOptionError */
export function withModel(job: JobSpec): JobSpec {
  return job.model.kind === "custom" ? { ...job, model: withModule(job.model) } : job;
}

/** The section with the files of its data by name, where it has data of its own. */
function withNamed<Section extends { data?: JobSpec["data"] | undefined }>(of: Section): Section {
  return of.data === undefined ? of : { ...of, data: named(of.data) };
}

function named(data: JobSpec["data"]): JobSpec["data"] {
  if (data.kind === "synthetic") return data;
  const paths = isTable(data) ? tableFilesOf(data.paths) : filesOf(data.paths);
  if (data.kind === "criteo-tsv") return { ...data, paths };
  const { transforms } = data;
  return { ...data, paths, ...(transforms && { transforms: withVocabularies(transforms) }) };
}
