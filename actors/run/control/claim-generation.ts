// Claims a generation for a job supervisor: takes the next number in the checkpoint store, which
// fences all older generations, and selects the checkpoint to restore. On a full disk it waits for
// room, since a restart would fail in the same way.

import { fromPromise } from "xstate";
import { ArithmeticMismatchError, StoreFailedError } from "../../../src/errors/errors.ts";
import { type JobSpec, jobIdentity } from "../../../src/job/job.ts";
import { shownJob } from "../../../src/job/shown-job.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import type { Clock } from "../../../src/ports/clock.ts";
import { isFull } from "../../../src/ports/disk-refusals.ts";
import { nextTurn } from "../../../src/ports/turns.ts";
import { adoptCheckpoint } from "../../../storage/checkpoints/adopt-checkpoint.ts";
import type {
  CheckpointStore,
  Generation,
} from "../../../storage/checkpoints/store/checkpoint-store.ts";
import { openStore } from "../../../storage/checkpoints/store/open-store.ts";
import type { HostShare } from "../../host/membership.ts";
import type { Network } from "../../runtime/mailbox.ts";
import { roomWaitMs } from "../../threads/generation-spec.ts";
import type { RunRecord } from "../state/run-record.ts";
import { roomAlert } from "./coordinator-events.ts";

/** A claimed generation, with its checkpoint store. */
export type Claimed = Generation & { readonly store: CheckpointStore };

export interface Claiming {
  readonly job: JobSpec;
  readonly network: Network;
  readonly record: RunRecord;
  readonly hosts: readonly HostShare[];
  readonly passedOver: readonly string[];
}

/** Claims the generation of a job (J2 of job-supervisor.ts). */
export const claiming = fromPromise<Claimed, Claiming>(async ({ input, signal }) => {
  const { job, hosts, record, network } = input;
  const step = record.progress?.step ?? 0;
  // Of many tables, the identity, the text and the manifest take long.
  await nextTurn(network.clock, signal);
  const identity = jobIdentity(job);
  await nextTurn(network.clock, signal);
  const jobText = JSON.stringify(shownJob(job));
  await nextTurn(network.clock, signal);
  return await onceThereIsRoom(() => claim(input, identity, jobText), {
    ...{ clock: network.clock, patienceMs: roomWaitMs({ job, hosts }), signal },
    tell: () => record.append(0, roomAlert({ job, hosts }, step, "ends with an error")),
  });
});

/** Backoff between attempts on a full disk: first wait and longest wait, doubled in between. */
const [waitMs, waitMsMax] = [250, 5000];

interface Patience {
  readonly clock: Clock;
  readonly patienceMs: number;
  /** Aborted when the result is no longer needed. */
  readonly signal: AbortSignal;
  /** Called once, at the first attempt on a full disk. */
  tell(): void;
}

/**
 * Calls `work` until it succeeds, retrying while the disk is full.
 * @throws StoreFailedError where the disk stays full for `patienceMs`
 */
export async function onceThereIsRoom<Result>(
  work: () => Result,
  { clock, patienceMs, signal, tell }: Patience,
): Promise<Result> {
  const startMs = clock.now();
  for (let tries = 0; ; tries++) {
    try {
      return work();
    } catch (error) {
      const mayPass = error instanceof StoreFailedError && isFull(error.cause);
      if (!mayPass || signal.aborted || clock.now() - startMs >= patienceMs) throw error;
    }
    if (tries === 0) tell();
    await new Promise<void>((resume) => {
      clock.after(Math.min(waitMsMax, waitMs * 2 ** tries), resume);
    });
  }
}

function claim({ job, network, passedOver }: Claiming, identity: string, jobText: string): Claimed {
  const { directory } = job.checkpoint;
  const store = openStore({ directory, disk: network.disk, jobIdentity: identity, jobText });
  network.assertLeading?.();
  const generation = store.beginGeneration(undefined, passedOver);
  const actual = openKernels(job.arithmetic).arithmetic;
  const isFirst = generation.latest === undefined && job.warmStart !== undefined;
  const latest = isFirst
    ? adoptCheckpoint(store, generation.generation, job, actual)
    : generation.latest;
  const expected = latest?.arithmetic;
  if (expected !== undefined && expected !== actual) {
    throw new ArithmeticMismatchError(expected, actual, directory);
  }
  return { ...generation, latest, store };
}

/**
 * Records a claimed generation in the log and in the run's open incidents, and publishes
 * run.damaged for each damaged checkpoint.
 */
export function logClaimed(
  { network, record, job }: { network: Network; record: RunRecord; job: JobSpec },
  { generation, latest, damaged }: Claimed,
  hosts: readonly HostShare[],
): void {
  const { run } = record;
  network.log.keep(run, job.checkpoint.directory, "leader");
  const from = { step: latest?.cut ?? 0, hosts: hosts.map(({ host }) => host) };
  const fields = { run, generation, actor: `job:${run}`, ...from };
  network.log.write("info", "generation claimed", fields);
  const passed = damaged.map(({ path }) => `, skipping ${path}`).join("");
  const did = `claimed generation ${generation}, from step ${from.step}${passed}`;
  record.incidents.act(fields.actor, did, network.clock.date());
  for (const { path, reason, kept = null } of damaged) {
    record.append(generation, { type: "run.damaged", path, kept, reason });
  }
}
