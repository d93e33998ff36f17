// Claims a generation for a job supervisor: takes the next number in the checkpoint store, which
// fences all older generations, and selects the checkpoint to restore. It waits for room on a full
// disk, and for an unreachable object store to answer, since a restart would fail in the same way.

import { fromPromise } from "xstate";
import {
  ArithmeticMismatchError,
  StoreFailedError,
  TrainingError,
} from "../../../src/errors/errors.ts";
import { type JobSpec, jobIdentity } from "../../../src/job/job.ts";
import { shownJob } from "../../../src/job/shown-job.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import type { Clock } from "../../../src/ports/clock.ts";
import { deadlinesOf } from "../../../src/ports/deadlines.ts";
import { isFull } from "../../../src/ports/disk-refusals.ts";
import { isObjectAddress } from "../../../src/ports/object-store.ts";
import { nextTurn } from "../../../src/ports/turns.ts";
import type { Generation } from "../../../storage/checkpoints/store/checkpoint-store.ts";
import type { HostShare } from "../../host/membership.ts";
import type { Network } from "../../runtime/mailbox.ts";
import { roomWaitMs } from "../../threads/generation-spec.ts";
import type { RunRecord } from "../state/run-record.ts";
import { waitAlert } from "./coordinator-events.ts";
import { openRunStore, type RunStore } from "./run-store.ts";

/** A claimed generation, with its checkpoint store. */
export type Claimed = Generation & { readonly store: RunStore };

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
  // With many tables, the identity, the text and the manifest take long to compute.
  await nextTurn(network.clock, signal);
  const identity = jobIdentity(job);
  await nextTurn(network.clock, signal);
  const jobText = JSON.stringify(shownJob(job));
  await nextTurn(network.clock, signal);
  const isRemote = isObjectAddress(job.checkpoint.directory);
  const code = isRemote ? "CHECKPOINT_STORE_AWAY" : "CHECKPOINT_DISK_FULL";
  return await onceThereIsRoom(() => claim(input, identity, jobText, signal), {
    ...{ clock: network.clock, patienceMs: roomWaitMs({ job, hosts }), signal },
    mayPass: isRemote ? isStoreAway : isDiskFull,
    tell: () => record.append(0, waitAlert(code, { job, hosts }, step, "starts its claim anew")),
  });
});

/** Backoff between attempts: first wait and longest wait, doubled in between. */
const [waitMs, waitMsMax] = [250, 5000];

interface Patience {
  readonly clock: Clock;
  readonly patienceMs: number;
  /** Aborted when the result is no longer needed. */
  readonly signal: AbortSignal;
  /** Whether an error may be transient. */
  mayPass(error: unknown): boolean;
  /** Called once, at the first attempt with such an error. */
  tell(): void;
}

export function isDiskFull(error: unknown): boolean {
  return error instanceof StoreFailedError && isFull(error.cause);
}

/** Whether a store over a network did not answer, or not as expected. */
export function isStoreAway(error: unknown): boolean {
  const away = new Set(["STORE_FAILED", "STEP_TIMEOUT", "PEER_LOST"]);
  return error instanceof TrainingError && away.has(error.code);
}

/**
 * Calls `work` until it succeeds. Rejects with an error that lasts: at once, or after `patienceMs`.
 */
export async function onceThereIsRoom<Result>(
  work: () => Result | Promise<Result>,
  { clock, patienceMs, signal, mayPass, tell }: Patience,
): Promise<Result> {
  const startMs = clock.now();
  for (let tries = 0; ; tries++) {
    try {
      return await work();
    } catch (error) {
      const isAway = mayPass(error);
      if (!isAway || signal.aborted || clock.now() - startMs >= patienceMs) throw error;
    }
    if (tries === 0) tell();
    await new Promise<void>((resume) => {
      clock.after(Math.min(waitMsMax, waitMs * 2 ** tries), resume);
    });
    signal.throwIfAborted(); // A claim now would fence the generation of another run.
  }
}

async function claim(
  { job, network, passedOver }: Claiming,
  jobIdentity: string,
  jobText: string,
  signal: AbortSignal,
): Promise<Claimed> {
  const { directory } = job.checkpoint;
  const { disk, clock } = network;
  const { step, saved } = deadlinesOf(job);
  const opened = { directory, jobIdentity, jobText };
  const store = openRunStore({ opened, disk, clock, deadlineMs: step });
  try {
    await store.open();
    signal.throwIfAborted();
    network.assertLeading?.();
    const generation = await store.beginGeneration(passedOver);
    const actual = openKernels(job.arithmetic).arithmetic;
    const isFirst = generation.latest === undefined && job.warmStart !== undefined;
    const latest = isFirst
      ? await store.within(saved).adopt(generation.generation, job, actual)
      : generation.latest;
    const expected = latest?.arithmetic;
    if (expected !== undefined && expected !== actual) {
      throw new ArithmeticMismatchError(expected, actual, directory);
    }
    if (signal.aborted) store.close();
    return { ...generation, latest, store };
  } catch (error) {
    store.close();
    throw error;
  }
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
