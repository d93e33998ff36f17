// How a job supervisor claims a generation: it takes the next number in the checkpoint store, which
// fences all older generations, and finds the checkpoint to go on from.

import { fromPromise } from "xstate";
import { ArithmeticMismatchError } from "../../src/errors/errors.ts";
import { type JobSpec, jobIdentity } from "../../src/job/job.ts";
import { shownJob } from "../../src/job/shown-job.ts";
import { openKernels } from "../../src/kernels/index.ts";
import type {
  CheckpointStore,
  Generation,
} from "../../storage/checkpoint-store/checkpoint-store.ts";
import { openStore } from "../../storage/checkpoint-store/directory-checkpoint-store.ts";
import { adoptCheckpoint } from "../../storage/checkpoints/adopt-checkpoint.ts";
import type { HostShare } from "../host/membership.ts";
import type { RunRecord } from "../run-state/run-record.ts";
import type { Network } from "../runtime/mailbox.ts";

/** A generation, and the store that it was claimed in. */
export type Claimed = Generation & { readonly store: CheckpointStore };

/** All that a generation begins with (J2 of job-supervisor.ts). */
export const claiming = fromPromise<
  Claimed,
  { readonly job: JobSpec; readonly network: Network; readonly passedOver: readonly string[] }
>(async ({ input: { job, network, passedOver } }) => {
  const store = openStore({
    directory: job.checkpoint.directory,
    disk: network.disk,
    jobIdentity: jobIdentity(job),
    jobText: JSON.stringify(shownJob(job)),
  });
  network.assertLeading?.();
  const generation = store.beginGeneration(undefined, passedOver);
  const actual = openKernels(job.arithmetic).arithmetic;
  const isFirst = generation.latest === undefined && job.warmStart !== undefined;
  const latest = isFirst
    ? adoptCheckpoint(store, generation.generation, job, actual)
    : generation.latest;
  const expected = latest?.arithmetic;
  if (expected !== undefined && expected !== actual) {
    throw new ArithmeticMismatchError(expected, actual, job.checkpoint.directory);
  }
  return { ...generation, latest, store };
});

/** Tells the log, and the open incidents of the run, that a generation is claimed. */
export function tellClaimed(
  { network, record, job }: { network: Network; record: RunRecord; job: JobSpec },
  { generation, latest, damaged }: Claimed,
  hosts: readonly HostShare[],
): void {
  const { run } = record;
  network.log.keep(run, job.checkpoint.directory, "root");
  const from = { step: latest?.cut ?? 0, hosts: hosts.map(({ host }) => host) };
  const fields = { run, generation, actor: `job:${run}`, ...from };
  network.log.write("info", "generation claimed", fields);
  const passed = damaged.map(({ path }) => `, passing over ${path}`).join("");
  const did = `claimed generation ${generation}, from step ${from.step}${passed}`;
  record.incidents.act(fields.actor, did, network.clock.date());
  for (const { path, reason, kept = null } of damaged) {
    record.append(generation, { type: "run.damaged", path, kept, reason });
  }
}
