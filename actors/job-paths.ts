// Job paths: where a job that comes over the wire may read and write. A cluster may give its jobs
// roots: then no path of theirs leads out of them, whatever links lie on the way.

import { lstatSync, readlinkSync, realpathSync } from "node:fs";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import { z } from "zod";
import { PathForbiddenError } from "../src/access-errors.ts";
import type { JobSpec } from "../src/job.ts";

/** Directories that jobs may use. Left out: any that the cluster's processes may. */
export const rootOptions = z.strictObject({
  /** Where data is read, and its caches lie. */
  data: z.string().min(1).optional(),
  /** Where checkpoints and tiers lie; a tenant's in a directory of its name. */
  checkpoints: z.string().min(1).optional(),
});

export type JobRoots = z.output<typeof rootOptions>;

/**
 * The job with paths that lie within the roots: relative ones are relative to their root, and each
 * is told as it is, without links. @throws PathForbiddenError
 */
export function withinRoots(job: JobSpec, roots: JobRoots, tenant: string | undefined): JobSpec {
  const dataRoot = roots.data;
  const checkpointRoot =
    roots.checkpoints === undefined ? undefined : join(roots.checkpoints, tenant ?? "");
  const data = (of: JobSpec["data"], at: string): JobSpec["data"] => {
    const cache = within(dataRoot, of.cache, `${at}.cache`);
    if (!("paths" in of)) return { ...of, cache };
    const paths = of.paths.map((path, i) => within(dataRoot, path, `${at}.paths[${i}]`));
    return { ...of, cache, paths };
  };
  const { evaluation, checkpoint, tiers } = job;
  const kept = (path: string, option: string) => within(checkpointRoot, path, option);
  return {
    ...job,
    data: data(job.data, "data"),
    evaluation:
      evaluation?.data === undefined
        ? evaluation
        : { ...evaluation, data: data(evaluation.data, "evaluation.data") },
    checkpoint: { ...checkpoint, directory: kept(checkpoint.directory, "checkpoint.directory") },
    tiers:
      tiers.directory === undefined
        ? tiers
        : { ...tiers, directory: kept(tiers.directory, "tiers.directory") },
  };
}

/** @throws PathForbiddenError */
function within(root: string | undefined, path: string, option: string): string {
  if (root === undefined) return path;
  const realRoot = withoutLinks(resolve(root));
  const real = withoutLinks(resolve(realRoot, path));
  const [first] = relative(realRoot, real).split(sep);
  if (first !== "..") return real;
  throw new PathForbiddenError(option, path, root);
}

/** The path as it is on the disk, also where its end, or what a link names, is not there yet. */
function withoutLinks(path: string): string {
  const parent = dirname(path);
  try {
    return realpathSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT" || parent === path) return path;
  }
  const isLink = lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true;
  if (isLink) return withoutLinks(resolve(parent, readlinkSync(path)));
  return join(withoutLinks(parent), basename(path));
}
