// Job paths: where a job that comes over the wire may read and write. A cluster may give its jobs
// roots, and each tenant its own: then no path of theirs leads out of them, whatever links lie on
// the way.

import { dirname, join, relative, resolve, sep } from "node:path";
import { z } from "zod";
import { isAddress, shownAddress } from "../../src/data/remote/addresses.ts";
import { PathForbiddenError } from "../../src/errors/errors.ts";
import { visible } from "../../src/errors/visible.ts";
import { type JobSpec, jobSchema } from "../../src/job/job.ts";
import { isBelowAny, withoutLinks } from "../../src/model/custom/allowed-modules.ts";
import { withPaths } from "../../src/ports/option-schemas.ts";
import type { Tenants } from "../../src/wire/tenancy/tenants.ts";

/**
 * Directories that jobs may use. Left out: any that the cluster's processes may; for its tenants,
 * where it has a list of them, `data/{tenant}` and `checkpoints/{tenant}`. `{tenant}` is the name
 * of the tenant; the cluster's operator has the directory above.
 */
export const rootOptions = z.strictObject({
  /** Where data is read, and its caches lie; shared by all where there is no `{tenant}` in it. */
  data: z.string().min(1).optional(),
  /** Where checkpoints and tiers lie; without `{tenant}`, a tenant's in a directory of its name. */
  checkpoints: z.string().min(1).optional(),
  /**
   * Modules of models (`model.path`) that jobs may name, which the cluster then runs: files, and
   * directories. @default none but those of jobs that this very process submits
   */
  models: z.array(z.string().min(1)).optional(),
});

export type JobRoots = z.output<typeof rootOptions>;

/** What jobs and tenants may use. */
export interface Access {
  readonly roots: JobRoots;
  readonly tenants: Tenants;
  /** Modules that this process submitted itself, as they are on the disk. @default none */
  readonly ownModels?: ReadonlySet<string>;
}

/** The module of the job's model, if it has one: for `ownModels` of a process that submits it. */
export function modulesOf({ model }: Pick<JobSpec, "model">): string[] {
  return model.kind === "custom" ? [withoutLinks(resolve(model.path))] : [];
}

/**
 * The job with paths that lie within the roots of who asks: relative ones are relative to their
 * root, and symbolic links in them are resolved. Its paths are the options that the job's schema
 * marks as such (src/ports/option-schemas.ts). @throws PathForbiddenError
 */
export function withinRoots(job: JobSpec, access: Access, tenant: string | undefined): JobSpec {
  const { data: dataRoot, checkpoints: checkpointRoot } = rootsOf(access, tenant);
  const forbidden: PathForbiddenError[] = [];
  const own = withPaths(jobSchema, job, (path, kind, option) => {
    try {
      if (kind === "module") return allowedModel(path, access);
      return pathWithin(kind === "data" ? dataRoot : checkpointRoot, path, option);
    } catch (error) {
      if (!(error instanceof PathForbiddenError)) throw error;
      if (forbidden.length < toldMax) forbidden.push(error);
      return path;
    }
  });
  const [first, ...others] = forbidden;
  if (first !== undefined) throw PathForbiddenError.ofAll(first, others);
  return own;
}

/** Paths that a refusal names: a job may have thousands. */
const toldMax = 100;

const named = "{tenant}";

function rootsOf({ roots, tenants }: Access, tenant: string | undefined): JobRoots {
  if (tenant === undefined) {
    return { data: above(roots.data), checkpoints: above(roots.checkpoints) };
  }
  const isShared = Object.keys(tenants).length > 0;
  const data = roots.data ?? (isShared ? join("data", named) : undefined);
  const checkpoints = roots.checkpoints ?? (isShared ? "checkpoints" : undefined);
  const isNamed = checkpoints === undefined || checkpoints.includes(named);
  const own = isNamed ? checkpoints : join(checkpoints, named);
  return { data: data?.replaceAll(named, tenant), checkpoints: own?.replaceAll(named, tenant) };
}

/** The directory that holds the directories of all tenants. */
function above(root: string | undefined): string | undefined {
  const at = root?.indexOf(named) ?? -1;
  return root === undefined || at < 0 ? root : dirname(`${root.slice(0, at)}${named}`);
}

/** The module as it is on the disk. @throws PathForbiddenError: the cluster does not allow it */
function allowedModel(path: string, { roots, ownModels }: Access): string {
  const { models = [] } = roots;
  try {
    const real = withoutLinks(resolve(path));
    if (ownModels?.has(real) === true) return real;
    if (
      isBelowAny(
        real,
        models.map((root) => withoutLinks(resolve(root))),
      )
    )
      return real;
  } catch (cause) {
    throw PathForbiddenError.ofModel(path, models, { cause });
  }
  throw PathForbiddenError.ofModel(path, models);
}

/** @throws PathForbiddenError */
function pathWithin(root: string | undefined, path: string, option: string): string {
  if (root === undefined) return path;
  if (isAddress(path)) throw new PathForbiddenError(option, shownAddress(path), root);
  try {
    const realRoot = withoutLinks(resolve(root));
    const real = withoutLinks(resolve(realRoot, path));
    const [first] = relative(realRoot, real).split(sep);
    if (first !== ".." && visible(real) === real) return real;
  } catch (cause) {
    // Where it leads cannot be told here, and may be told elsewhere.
    throw new PathForbiddenError(option, path, root, { cause });
  }
  throw new PathForbiddenError(option, path, root);
}
