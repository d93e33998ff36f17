// The verdict: compares a faulted run with its reference run. It requires the same model to the
// last bit of every row and optimizer slot, read back from disk; the same losses and metrics; every
// sample trained exactly once per epoch, by the records in the store; and no fault still in effect.

import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { Cluster } from "../../actors/cluster/cluster.ts";
import type { RunEvent } from "../../actors/run/state/run-events.ts";
import type { RunResult } from "../../actors/run/state/run-result.ts";
import { type JobOptions, resolveJob } from "../../src/job/job.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { type Schedule as Steps, scheduleOf } from "../../src/training/loop/schedule.ts";
import {
  type EpochLedger,
  epochOrderOf,
  sampleLedger,
  stretchesOf,
  timesTrained,
} from "../../storage/checkpoints/sample-ledger.ts";
import { openExistingStore } from "../../storage/checkpoints/store/open-store.ts";
import { temporaryHome } from "../../storage/disk/temporary-home.ts";
import { loadModel } from "../../storage/model/load-model.ts";
import type { Fault, Schedule } from "../faults/schedule.ts";
import { type FaultedRun, jobIn, type ReceivedEvent } from "./faulted-run.ts";

/** A run without faults. */
export interface ReferenceRun {
  readonly result: RunResult;
  /** Hashes of all leaves of the model, by name (`Model.leaves`). */
  readonly leaves: ReadonlyMap<string, string>;
  /** The schedule of its steps. */
  readonly steps: Steps;
  /** From its first step to its end. */
  readonly trainingSeconds: number;
}

/** The verdict on a faulted run. */
export interface TrialVerdict {
  /**
   * `equal`: equal to the reference run. `safety`: it ended differently. `liveness`: it did not
   * end, or ended with a failure. `harness`: the harness left a fault in effect.
   */
  readonly verdict: "equal" | "safety" | "liveness" | "harness";
  /** Differences from the reference run, one sentence each. */
  readonly differences: readonly string[];
  /** How often samples were trained, by epoch; empty if the run did not end. */
  readonly ledger: readonly EpochLedger[];
  readonly recoveries: readonly Recovery[];
  /** Committed steps that were trained again; 0 unless a disk lost synced data. */
  readonly committedStepsLost: number;
  /** From its first step to its end. */
  readonly trainingSeconds: number;
  /** Share of that time that the reference run needed for the same steps. */
  readonly goodput: number;
}

/** A failure and its cost. */
export interface Recovery {
  readonly offender: string;
  readonly code: string;
  readonly generation: number;
  /** From the preceding injection, if there was one, to the incident. */
  readonly detectedSeconds: number | undefined;
  /** From the incident to the first step after the restore; undefined without a restore. */
  readonly recoverySeconds: number | undefined;
  /** Completed steps that were not committed. */
  readonly redoneSteps: number;
}

/** Most differing leaves in the message. */
const namedMax = 8;

/** Trains the job's reference run in this process, without faults. @throws RemoteError */
export async function runReference(job: JobOptions, devices: number): Promise<ReferenceRun> {
  using home = temporaryHome("osiris-reference-");
  const events: ReceivedEvent[] = [];
  await using cluster = await Cluster.start({ devices });
  const run = await cluster.submit(jobIn(job, join(home.path, "checkpoints")));
  for await (const event of run.events()) events.push({ atMs: Date.now(), event });
  const result = await run.result();
  const prepared = events.map(({ event }) => event).find((one) => one.type === "run.prepared");
  const samples = prepared?.type === "run.prepared" ? prepared.samples : 0;
  const { batchSize, passes } = resolveJob(job).data;
  return {
    result,
    leaves: await leavesOf(result),
    steps: scheduleOf({ samples, batchSize, passes }),
    trainingSeconds: trainingSeconds(events),
  };
}

/** Compares a faulted run with its reference run. Its directory must still exist. */
export async function verdictOf(
  job: JobOptions,
  schedule: Schedule,
  faulted: FaultedRun,
  reference: ReferenceRun,
): Promise<TrialVerdict> {
  const { events, alive } = faulted;
  const common = {
    recoveries: [...recoveriesOf(faulted), ...leaderLosses(faulted, schedule.faults)],
    committedStepsLost: committedStepsLost(events.map(({ event }) => event)),
    trainingSeconds: trainingSeconds(events),
    goodput: Math.min(1, reference.trainingSeconds / trainingSeconds(events)),
  };
  const left = alive.map((what) => `Still active at the end: ${what}`);
  if (faulted.result === undefined) {
    const why = faulted.error === undefined ? "no event was received" : faulted.error.message;
    const differences = [`The run did not end (${faulted.end}): ${why}`, ...left];
    return { ...common, verdict: "liveness", differences, ledger: [] };
  }
  const stretches = stretchesOf(faulted.directory);
  const { manifests } = openExistingStore(faulted.directory, realDisk).list();
  const order = epochOrderOf(resolveJob(job), manifests[0]?.metrics);
  const ledger = sampleLedger(stretches, reference.steps, order);
  const differences = [
    ...(await modelDifferences(faulted.result, reference)),
    ...seriesDifferences(faulted.result, reference.result),
    ...ledgerDifferences(timesTrained(stretches, reference.steps)),
  ];
  const verdict = differences.length > 0 ? "safety" : left.length > 0 ? "harness" : "equal";
  return { ...common, verdict, differences: [...differences, ...left], ledger };
}

async function leavesOf({ directory, manifest }: RunResult): Promise<Map<string, string>> {
  await using model = await loadModel(directory, { manifest });
  return model.leaves();
}

/** Compares the models by the records of their checkpoints and by their contents. */
async function modelDifferences(result: RunResult, reference: ReferenceRun): Promise<string[]> {
  const differences: string[] = [];
  if (result.digest !== reference.result.digest) {
    differences.push(
      `The digest of the model is ${result.digest}, of the reference run ${reference.result.digest}`,
    );
  }
  if (result.step !== reference.result.step || result.status !== reference.result.status) {
    const own = `${result.status} at step ${result.step}`;
    differences.push(
      `The run ${own}, the reference run ${reference.result.status} at step ${reference.result.step}`,
    );
  }
  const leaves = await leavesOf(result);
  const names = [...new Set([...leaves.keys(), ...reference.leaves.keys()])];
  const wrong = names.filter((name) => leaves.get(name) !== reference.leaves.get(name));
  const more = wrong.length > namedMax ? [`and ${wrong.length - namedMax} more leaves`] : [];
  const named = wrong.slice(0, namedMax).map((name) => `The bits of ${name} differ`);
  return [...differences, ...named, ...more];
}

function seriesDifferences(result: RunResult, reference: RunResult): string[] {
  if (isDeepStrictEqual(result.history, reference.history)) return [];
  const at = reference.history.findIndex(
    (point, i) => !isDeepStrictEqual(point, result.history[i]),
  );
  const step = reference.history[at]?.step ?? result.history.at(-1)?.step;
  return [`Losses or metrics differ from step ${step} on`];
}

/** Every step up to the last trained one must have been trained exactly once. */
function ledgerDifferences(times: Uint8Array): string[] {
  const end = times.findLastIndex((count) => count > 0) + 1;
  const wrong = [...times.subarray(0, end).entries()].filter(([, count]) => count !== 1);
  const named = wrong.slice(0, namedMax).map(([step, count]) => `step ${step} ${count} times`);
  return wrong.length === 0 ? [] : [`Steps not trained exactly once: ${named.join(", ")}`];
}

function recoveriesOf({ events, faults }: FaultedRun): Recovery[] {
  const recoveries: Recovery[] = [];
  let step = 0;
  let saved = 0;
  let injectedBefore = 0;
  const injections = faults.flatMap(({ atMs }) => atMs ?? []).sort((a, b) => a - b);
  for (const { atMs, event } of events) {
    if (event.type === "run.checkpointed") saved = event.step;
    if ("step" in event && event.type !== "run.incident") step = Math.max(step, event.step);
    if (event.type === "run.started") step = event.fromStep;
    const last = recoveries.at(-1);
    if (event.type === "run.recovered" && last !== undefined) {
      recoveries[recoveries.length - 1] = { ...last, recoverySeconds: event.seconds };
    }
    if (event.type !== "run.incident") continue;
    // The first incident after an injection is attributed to it; more cannot be known from outside.
    const injected = injections.filter((one) => one > injectedBefore && one <= atMs).at(-1);
    injectedBefore = injected ?? injectedBefore;
    recoveries.push({
      offender: event.offender,
      code: event.error.code,
      generation: event.generation,
      detectedSeconds: injected === undefined ? undefined : (atMs - injected) / 1000,
      recoverySeconds: undefined,
      redoneSteps: Math.max(0, step - saved),
    });
  }
  return recoveries;
}

/**
 * Losses of the leader's process, which no incident names: each lasts until the next reported step.
 */
function leaderLosses({ faults, events }: FaultedRun, schedule: readonly Fault[]): Recovery[] {
  return faults.flatMap((fault, i) => {
    const planned = schedule[i];
    const isLeader =
      planned !== undefined && "where" in planned && planned.where === "process:leader";
    if (!isLeader || fault.atMs === undefined) return [];
    const since = fault.atMs;
    const lost = events.findIndex(({ atMs, event }) => atMs > since && event.type === "run.queued");
    const next = events.find(({ event }, at) => at > lost && "step" in event);
    if (lost < 0 || next === undefined) return [];
    const { generation } = next.event;
    const recoverySeconds = (next.atMs - since) / 1000;
    const own = { offender: "leader", code: "PROCESS_LOST", detectedSeconds: 0, redoneSteps: 0 };
    return [{ ...own, generation, recoverySeconds }];
  });
}

function committedStepsLost(events: readonly RunEvent[]): number {
  let saved = 0;
  let lost = 0;
  for (const event of events) {
    if (event.type === "run.started") {
      lost += Math.max(0, saved - event.fromStep);
      saved = event.fromStep;
    }
    if (event.type === "run.checkpointed") saved = event.step;
  }
  return lost;
}

/** Seconds from the first step to the end, by the times of receipt. */
function trainingSeconds(events: readonly ReceivedEvent[]): number {
  const first = events.find(({ event }) => event.type === "run.started")?.atMs ?? 0;
  return Math.max(1, (events.at(-1)?.atMs ?? 0) - first) / 1000;
}
