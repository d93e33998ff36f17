// The cluster that the tests of this folder share; each test has its own jobs and directories.

import { prepareData } from "../../../../actors/threads/data/prepare-data.ts";
import type { JobOptions, RunResult } from "../../../../index.ts";
import { resolveJob } from "../../../../src/job/job.ts";
import { realDisk } from "../../../../src/ports/disk.ts";
import type { EitherCluster } from "../../../helpers/clusters/either-cluster.ts";
import { startCluster } from "../../../helpers/clusters/either-clusters.ts";
import { shared } from "../../../helpers/clusters/one-for-many.ts";

export const onCluster = shared(() => startCluster(2));

/** Prepares the data of a job without a cluster, and returns what the preparing host reports. */
export function prepared(job: JobOptions) {
  return prepareData(resolveJob(job), realDisk, () => {});
}

export async function trained({ cluster }: EitherCluster, job: JobOptions): Promise<RunResult> {
  return (await cluster.submit(job)).result();
}
