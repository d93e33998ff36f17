// Stages 3 and 4 of a step: its rows arrive in device memory, are looked up and sent, at up to
// three times: before the previous step's update (`readAhead`), right after it (`readRest`), and in
// the step itself. Each read of a table happens once, except for what the update changed of a table
// that was read ahead (deferred.ts).

import type { DistinctBags } from "../../embedding/lookup/dedup-rows.ts";
import type { SampleRows } from "../../embedding/lookup/sample-rows.ts";
import type { LocalBatch } from "../../exchange/batch-ring.ts";
import type { Bags } from "../../kernels/contract/kernels.ts";
import type { Pass } from "../../model/graph/graph.ts";
import type { Read } from "../topology/fresh-and-stale.ts";
import { receiveBagLengths, sendBagLengths } from "./bag-lengths.ts";
import { receiveRows, sendRows } from "./dedup/dedup-dist.ts";
import { type Deferred, findDeferred, receiveDeferred, sendDeferred } from "./deferred.ts";
import type { DeviceState } from "./device-state.ts";
import { receiveVectors, sendVectors } from "./output-dist.ts";
import { arriveRows, type StagedRows, stageRows } from "./prefetch.ts";
import { lookupReplicas, replicaBagsOf } from "./replicas.ts";
import type { StepTaskName } from "./step-graph.ts";
import type { StepPlan } from "./step-plan.ts";

/** A step that has begun: its bags are being sent to the devices of the rows. */
export interface BegunStep {
  readonly batch: LocalBatch;
  readonly plan: StepPlan;
  readonly rows: SampleRows;
  readonly requested: DistinctBags;
  readonly pass: Pass;
}

/** A staged step: its rows are being prefetched into device memory. */
export interface StagedStep extends BegunStep {
  readonly staged: StagedRows;
}

/** A step with tables that were read before the previous step's update. */
export interface LateStep extends StagedStep {
  readonly isLate: true;
  /** Bags of replicated tables, where some of these are stale. */
  readonly replicaBags: Bags | undefined;
  /** The bags and rows read ahead that the update changes; undefined: no table is read ahead. */
  readonly deferred: Deferred | undefined;
  /** Whether all its vectors are sent (`readRest`). */
  readonly isSent: boolean;
}

/** Receives the bags of a step and requests its rows, while another step may still compute. */
export async function stageStep(device: DeviceState, begun: BegunStep): Promise<StagedStep> {
  // Stage 3: prefetch.
  enter(device, begun.plan, "receiveIds");
  return { ...begun, staged: await stageRows(device, begun.plan) };
}

/** Waits until the rows of a step are in device memory and may be read. */
export async function arriveStep(
  device: DeviceState,
  begun: BegunStep | StagedStep,
): Promise<StagedStep> {
  const step = "staged" in begun ? begun : await stageStep(device, begun);
  enter(device, begun.plan, "tiers");
  await arriveRows(device, step.staged);
  return step;
}

/**
 * Reads the tables of the early read of a step before the update of the previous step, `current`,
 * and sends their vectors.
 */
export async function readAhead(
  device: DeviceState,
  begun: BegunStep | StagedStep,
  current: StagedRows,
): Promise<LateStep> {
  const step = await arriveStep(device, begun);
  const { plan, rows, staged } = step;
  enter(device, plan, "lookupAhead");
  const { stale, isStale, isAhead } = device.topology.reads;
  await sendRead(device, step, stale);
  // The previous step still uses the memory of replicas, unless it waits for its last gradients.
  const replicaBags = isStale ? replicaBagsOf(device, rows, plan) : undefined;
  lookupReplicas(device, replicaBags, plan, stale);
  const deferred = isAhead ? findDeferred(device, staged, current) : undefined;
  return { ...step, isLate: true, replicaBags, deferred, isSent: false };
}

/** After the previous step's update: reads all other rows of a step, and the changed ones again. */
export async function readRest(device: DeviceState, step: LateStep): Promise<LateStep> {
  await sendReads(device, step, "lookupRest");
  return { ...step, isSent: true };
}

/**
 * Looks up the rows of a read that lie on one device each, and sends them. Besides replicas, no
 * other function of a step reads rows.
 */
async function sendRead(device: DeviceState, step: StagedStep, read: Read): Promise<void> {
  const { bags, lookups, axes } = step.staged;
  await sendVectors(device, bags, axes, step.plan, read);
  await sendRows(device, lookups, step.plan, read);
}

/** Reads the tables that `readAhead` has not read, unless `readRest` has already read them. */
export async function sendReads(
  device: DeviceState,
  step: StagedStep | LateStep,
  task: "lookup" | "lookupRest" = "lookup",
): Promise<void> {
  if ("isLate" in step && step.isSent) return;
  const { plan, staged } = step;
  enter(device, plan, task);
  const { fresh, stale } = device.topology.reads;
  if (!("isLate" in step)) await sendRead(device, step, stale);
  else if (step.deferred) await sendDeferred(device, staged, step.deferred, plan);
  await sendBagLengths(device, staged.bags, plan);
  await sendRead(device, step, fresh);
}

/** Looks up the replicated tables that `readAhead` has not read. Returns their bags. */
export function readReplicas(device: DeviceState, step: StagedStep | LateStep): Bags | undefined {
  const { replicated, reads } = device.topology;
  const { fresh, stale } = reads;
  if (replicated.length > 0) enter(device, step.plan, "lookupReplicas");
  const late = "isLate" in step ? step.replicaBags : undefined;
  const bags = late ?? replicaBagsOf(device, step.rows, step.plan);
  lookupReplicas(device, bags, step.plan, fresh);
  if (late === undefined) lookupReplicas(device, bags, step.plan, stale);
  return bags;
}

/** Receives the vectors, from this device and others, and writes them into the network. */
export async function receiveReads(
  device: DeviceState,
  step: StagedStep | LateStep,
): Promise<void> {
  const { rows, requested, plan } = step;
  enter(device, plan, "receiveReads");
  const isResent = "isLate" in step && step.deferred !== undefined;
  const resent = isResent ? await receiveDeferred(device) : undefined;
  await receiveRows(device, requested, plan, resent);
  await receiveBagLengths(device, plan);
  const steps = plan.isTraining ? plan.step : device.trained.steps;
  await receiveVectors(device, rows, plan, steps, resent);
  if (isResent) device.frames.deferred.close();
}

/** Records in the trace that a task of the step graph begins. An evaluation is not traced. */
export function enter(device: DeviceState, plan: StepPlan, task: StepTaskName): void {
  device.trace.enter(plan.isTraining ? plan.step : undefined, task);
}
