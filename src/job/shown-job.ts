// A job as a file may show it: what may be secret in the addresses of its data is left out.

import { shownPath } from "../data/remote/addresses.ts";
import type { JobSpec } from "./job.ts";

/** The job with addresses of data without what may sign a request. */
export function shownJob(job: JobSpec): JobSpec {
  const { evaluation } = job;
  const data = shownData(job.data);
  if (evaluation === undefined) return { ...job, data };
  const { test } = evaluation;
  const tested = test && { test: withShown(test) };
  return { ...job, data, evaluation: { ...withShown(evaluation), ...tested } };
}

function withShown<Section extends { data?: JobSpec["data"] | undefined }>(of: Section): Section {
  return of.data === undefined ? of : { ...of, data: shownData(of.data) };
}

function shownData(data: JobSpec["data"]): JobSpec["data"] {
  return "paths" in data ? { ...data, paths: data.paths.map(shownPath) } : data;
}
