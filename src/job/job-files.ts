// The files of a job's data by name: directories and patterns stand for the files that are there
// when the job is submitted, so that a run knows its files from then on.

import { filesOf } from "../data/text/files.ts";
import type { JobSpec } from "./job.ts";

/** The job with its files by name. @throws InputUnusableError where a path names no file */
export function withFiles(job: JobSpec): JobSpec {
  const { data, evaluation } = job;
  const held = evaluation?.data;
  return {
    ...job,
    data: named(data),
    ...(held === undefined ? {} : { evaluation: { ...evaluation, data: named(held) } }),
  } as JobSpec;
}

function named(data: JobSpec["data"]): JobSpec["data"] {
  return data.kind === "synthetic" ? data : { ...data, paths: filesOf(data.paths) };
}
