// How a job supervisor claims a generation, and what it makes of a claim that came to nothing.

import { fromPromise } from "xstate";
import {
  ArithmeticMismatchError,
  type ErrorRecord,
  LeadershipLostError,
} from "../../src/errors/errors.ts";
import { type JobSpec, jobIdentity } from "../../src/job/job.ts";
import { openKernels } from "../../src/kernels/index.ts";
import type {
  CheckpointStore,
  Generation,
} from "../../storage/checkpoint-store/checkpoint-store.ts";
import { openStore } from "../../storage/checkpoint-store/directory-checkpoint-store.ts";
import type { ActorFailedError } from "../runtime/incident.ts";
import type { Network } from "../runtime/mailbox.ts";

/** A generation, and the store that it is of. */
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
    jobText: JSON.stringify(job),
  });
  network.assertLeading?.();
  const generation = store.beginGeneration(undefined, passedOver);
  const expected = generation.latest?.arithmetic;
  const actual = openKernels(job.arithmetic).arithmetic;
  if (expected !== undefined && expected !== actual) {
    throw new ArithmeticMismatchError(expected, actual);
  }
  return { ...generation, store };
});

/**
 * What a restart mends. A damaged checkpoint is passed over (J5), but not what is damaged beside
 * them, whose directory it is; and who leads claims again what a former leader has claimed (J7).
 */
export function mendable(network: Network, error: ErrorRecord, actorId: string): ErrorRecord {
  const isDamaged = error.code === "CHECKPOINT_CORRUPT" && actorId !== "claiming";
  const isMendable = isDamaged || (error.code === "GENERATION_FENCED" && isLeading(network));
  return isMendable ? { ...error, recovery: "restore" } : error;
}

/** Whether there is a lease, and this process has it. */
function isLeading({ assertLeading }: Network): boolean {
  try {
    assertLeading?.();
    return assertLeading !== undefined;
  } catch (error) {
    if (error instanceof LeadershipLostError) return false;
    throw error;
  }
}

/**
 * Hashes of manifests to pass over after a failure (J5): the checkpoint coordinator reads what it
 * has written, everybody else what is restored.
 */
export function passedOverAfter(
  { claimed, passedOver }: { claimed: Claimed | undefined; passedOver: readonly string[] },
  { code, incident }: ActorFailedError,
): readonly string[] {
  const { latest } = claimed ?? {};
  const isItsOwn = incident.offender === "checkpoint";
  if (code !== "CHECKPOINT_CORRUPT" || isItsOwn || latest === undefined) return passedOver;
  return [...passedOver, latest.sha256];
}
