// Allowed paths: where a job that comes over the network may read and write. A cluster may restrict
// its jobs, and each tenant, to root directories: no path may then lead out of them, whatever
// symbolic links lie on the way.

import { dirname, join, relative, resolve, sep } from "node:path";
import { z } from "zod";
import { isAddress, shownAddress } from "../../src/data/remote/addresses.ts";
import { PathForbiddenError, visible } from "../../src/errors/errors.ts";
import type { JobSpec } from "../../src/job/job.ts";
import { jobSchema } from "../../src/job/job-schema.ts";
import { isBelowAny, withoutLinks } from "../../src/model/custom/allowed-modules.ts";
import { isObjectAddress, isPlainPath } from "../../src/ports/object-store.ts";
import { withPaths } from "../../src/ports/option-schemas.ts";
import type { Tenants } from "../../src/wire/tenancy/tenants.ts";
import { below } from "../../storage/checkpoints/store/store-paths.ts";

/** A root in an object store. All tenants have one bucket, so that the operator's root is in it. */
const rootForm = /^s3:\/\/[^/{}]+(\/|$)/i;

/**
 * Directories that jobs may use. Left out: any that the cluster's processes may access; for tenants
 * of a list, `data/{tenant}` and `checkpoints/{tenant}`. `{tenant}` is replaced by the tenant's
 * name; the cluster's operator has the directory above.
 */
export const rootOptions = z.strictObject({
  /** Root of data and its caches; shared by all tenants if it has no `{tenant}`. */
  data: z.string().min(1).refine(isPlainPath, { error: "a directory" }).optional(),
  /**
   * Root of checkpoints and tiers, or `s3://bucket/prefix`, of checkpoints alone; without
   * `{tenant}`, each tenant has a subdirectory with its name.
   */
  checkpoints: z
    .string()
    .min(1)
    .refine((root) => isPlainPath(root) || rootForm.test(root), {
      error: "a directory, or `s3://bucket/prefix`",
    })
    .optional(),
  /**
   * Model modules (`model.path`) that jobs may name and the cluster then runs: files and
   * directories. @default none but those of jobs that this very process submits
   */
  models: z.array(z.string().min(1)).optional(),
});

export type JobRoots = z.output<typeof rootOptions>;

/** The paths that jobs and tenants may use. */
export interface Access {
  readonly roots: JobRoots;
  readonly tenants: Tenants;
  /** Modules that this process submitted itself, as real paths. @default none */
  readonly ownModels?: ReadonlySet<string>;
}

/** The module of the job's model, if it has one, as an entry for `ownModels`. */
export function modulesOf({ model }: Pick<JobSpec, "model">): string[] {
  return model.kind === "custom" ? [withoutLinks(resolve(model.path))] : [];
}

/**
 * Checks that the job's paths lie within the roots of the tenant, and returns the job with real
 * paths: relative paths are relative to their root, and symbolic links are resolved. Its paths are
 * the options that the job's schema marks as such (src/ports/option-schemas.ts). @throws
 * PathForbiddenError
 */
export function withinRoots(job: JobSpec, access: Access, tenant: string | undefined): JobSpec {
  const { data: dataRoot, checkpoints: checkpointRoot } = rootsOf(access, tenant);
  const forbidden: PathForbiddenError[] = [];
  const own = withPaths(jobSchema, job, (path, kind, option) => {
    try {
      if (kind === "module") return allowedModel(path, access);
      if (checkpointRoot === undefined || kind === "data" || !isObjectAddress(checkpointRoot)) {
        return pathWithin(kind === "data" ? dataRoot : checkpointRoot, path, option);
      }
      // Tiers are files of a host, for which there is no root.
      if (option === "tiers.directory") {
        throw PathForbiddenError.ofPath(option, path, checkpointRoot);
      }
      return addressWithin(checkpointRoot, path, option);
    } catch (error) {
      if (!(error instanceof PathForbiddenError)) throw error;
      if (forbidden.length < refusalsMax) forbidden.push(error);
      return path;
    }
  });
  const [first, ...others] = forbidden;
  if (first !== undefined) throw PathForbiddenError.ofAll(first, others);
  return own;
}

/** Most paths in a refusal: a job may have thousands. */
const refusalsMax = 100;

const named = "{tenant}";

function rootsOf({ roots, tenants }: Access, tenant: string | undefined): JobRoots {
  if (tenant === undefined) {
    return { data: above(roots.data), checkpoints: above(roots.checkpoints) };
  }
  const isShared = Object.keys(tenants).length > 0;
  const data = roots.data ?? (isShared ? join("data", named) : undefined);
  const checkpoints = roots.checkpoints ?? (isShared ? "checkpoints" : undefined);
  const isNamed = checkpoints === undefined || checkpoints.includes(named);
  const own = isNamed ? checkpoints : below(checkpoints.replace(/(?<=.)\/+$/, ""), named);
  return { data: data?.replaceAll(named, tenant), checkpoints: own?.replaceAll(named, tenant) };
}

/** The directory that holds the directories of all tenants. */
function above(root: string | undefined): string | undefined {
  const at = root?.indexOf(named) ?? -1;
  return root === undefined || at < 0 ? root : dirname(`${root.slice(0, at)}${named}`);
}

/** The real path of a module. @throws PathForbiddenError if the cluster does not allow it */
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

/** The address of a path within a root in an object store. @throws PathForbiddenError */
function addressWithin(root: string, path: string, option: string): string {
  const base = root.replace(/\/+$/, "");
  const address = (isObjectAddress(path) ? path : `${base}/${path}`).replace(/\/+$/, "");
  const names = address.slice(base.length).split("/").slice(1);
  const isBelow = address === base || address.startsWith(`${base}/`);
  const isPlain = names.every((name) => !["", ".", ".."].includes(name));
  if (isBelow && isPlain && visible(address) === address) return address;
  throw PathForbiddenError.ofPath(option, path, root);
}

/** The real path of a path within a root. @throws PathForbiddenError */
function pathWithin(root: string | undefined, path: string, option: string): string {
  if (root === undefined) return path;
  if (isAddress(path)) throw PathForbiddenError.ofPath(option, shownAddress(path), root);
  try {
    const realRoot = withoutLinks(resolve(root));
    const real = withoutLinks(resolve(realRoot, path));
    const [first] = relative(realRoot, real).split(sep);
    if (first !== ".." && visible(real) === real) return real;
  } catch (cause) {
    // The path cannot be resolved on this machine, but might resolve on another: it is forbidden.
    throw PathForbiddenError.ofPath(option, path, root, { cause });
  }
  throw PathForbiddenError.ofPath(option, path, root);
}
