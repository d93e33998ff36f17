// The cluster that the tests of this room share: each test has jobs and directories of its own.

import { prepareData } from "../../../../actors/threads/data/prepare-data.ts";
import type { JobOptions, RunResult } from "../../../../index.ts";
import { resolveJob } from "../../../../src/job/job.ts";
import { realDisk } from "../../../../src/ports/disk.ts";
import type { EitherCluster } from "../../../helpers/clusters/either-cluster.ts";
import { startCluster } from "../../../helpers/clusters/either-clusters.ts";
import { shared } from "../../../helpers/clusters/one-for-many.ts";

export const onCluster = shared(() => startCluster(2));

/** What the host that prepares the data of a run tells of them, without a cluster. */
export function prepared(job: JobOptions) {
  return prepareData(resolveJob(job), realDisk, () => {});
}

export async function trained({ cluster }: EitherCluster, job: JobOptions): Promise<RunResult> {
  return (await cluster.submit(job)).result();
}
