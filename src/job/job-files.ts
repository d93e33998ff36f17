// Resolves the files of a job when the job is submitted, so that the run is tied to them:
// directories and patterns are replaced by the names of their files, and a model's module and
// vocabularies get the hashes of their contents.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { isTable } from "../data/data-kinds.ts";
import { filesOf, tableFilesOf } from "../data/files.ts";
import { s3FilesOf } from "../data/remote/s3-list.ts";
import { withHashes } from "../data/transforms/vocabulary.ts";
import { InputUnusableError } from "../errors/errors.ts";
import { withModule } from "../model/custom/custom-model.ts";
import { checkStatistics } from "./check-asynchronous.ts";
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
  if (job.model.kind !== "custom") return job;
  const model = withModule(job.model);
  checkStatistics({ ...job, model });
  return { ...job, model };
}

/**
 * Returns the job with the hashes of its files of learned costs. @throws InputUnusableError where a
 * file cannot be read, or has another hash than the job says
 */
export function withCosts(job: JobSpec): JobSpec {
  const { costs } = job.planner;
  if (costs === undefined || costs === "formulas") return job;
  const hashed = costs.map((one) => ({ ...one, sha256: hashOfCosts(one.file, one.sha256) }));
  return { ...job, planner: { ...job.planner, costs: hashed } };
}

/** The job as it was submitted, without the learned costs of a machine (`withOwnCosts`). */
export function withoutOwnCosts(job: JobSpec): JobSpec {
  const { costs, ...planner } = job.planner;
  if (costs === undefined || costs === "formulas") return job;
  return costs.some(({ verdict }) => verdict !== undefined) ? { ...job, planner } : job;
}

/**
 * The SHA-256 of a file of learned costs. `expected`: that of the submitted job, if it is known.
 * @throws InputUnusableError
 */
export function hashOfCosts(path: string, expected: string | undefined): string {
  const actual = createHash("sha256").update(readCosts(path)).digest("hex");
  if (expected === undefined || expected === actual) return actual;
  throw new InputUnusableError(
    path,
    `Expected the costs ${path} to have the SHA-256 of the submitted job, ${expected}, got ` +
      `${actual}: put the former file back, or submit the job anew with this one`,
  );
}

function readCosts(path: string): Uint8Array {
  try {
    return readFileSync(path);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    const message =
      `Cannot read the costs ${path}, which \`planner.costs\` names: ${reason}; put the file ` +
      "there, or leave the option out";
    throw new InputUnusableError(path, message, { cause });
  }
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
