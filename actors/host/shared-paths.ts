// Shared paths: all hosts read the same caches and write into the same checkpoint directory. A
// joined host may be another machine, so it checks the paths before it starts.

import { resolve } from "node:path";
import { PathNotSharedError } from "../../src/errors/errors.ts";
import type { Disk } from "../../src/ports/disk.ts";
import { pathsOf } from "../../storage/checkpoints/store/store-paths.ts";
import type { GenerationSpec } from "../threads/generation-spec.ts";

/**
 * Checks that this host sees the files of the cluster: the generation's record, which the cluster
 * has just written, and the data caches. @throws PathNotSharedError naming host and path
 */
export function checkShared(
  { job, data, generation }: GenerationSpec,
  host: number,
  disk: Disk,
): void {
  if (host === 0) return; // Host 0 is the process that wrote them.
  const record = pathsOf(job.checkpoint.directory).generation(generation);
  for (const path of [record, data.training.path, data.evaluation?.path, data.test?.path]) {
    if (path === undefined || disk.exists(path)) continue;
    throw new PathNotSharedError(`host:${host}`, resolve(path));
  }
}
