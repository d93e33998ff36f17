// One step of hybrid-parallel training on one device.
//
// Stages are numbered as in docs/architecture.md, "One step"; readers run stage 1, the reading. A
// step is an async function that suspends only at the exchange's named waits; kernels are ordinary
// calls. On a device's thread the waits block and the promises are already resolved; in the
// simulator the waits suspend the function. The same code runs in both.
//
// b = samples of this device, B = samples of the batch, F = features, D = dim.
//
// Invariants
//   S1. Weights change only in `applyRows` and `applyDenseGradient`, after all gradients arrived.
//       They are read before; weights of tables of the early read also for the next step
//       (`readAhead`). Between the two, rows on one device each are read for it (`readRest`).
//   S2. Only the topology knows the number of devices (law 4).
//   S3. A step with a non-finite loss or gradient ends in an error, so no cut follows it.

import { oneLabel } from "../../data/targets.ts";
import type { DistinctBags } from "../../embedding/lookup/dedup-rows.ts";
import type { SampleRows } from "../../embedding/lookup/sample-rows.ts";
import type { Slab } from "../../embedding/rows/slab.ts";
import { decayedRule } from "../../embedding/tables/row-decay.ts";
import { type OptimizerStep, rowRuleOf } from "../../embedding/tables/row-rule.ts";
import type { LocalBatch } from "../../exchange/batch-ring.ts";
import type { Bags, RowRule, Tensor } from "../../kernels/contract/kernels.ts";
import { applyDense, swapAverage } from "../../model/dense-optimizer.ts";
import type { Pass } from "../../model/graph/graph.ts";
import {
  backwardEarly,
  backwardLate,
  dLogitsOf,
  forwardEarly,
  forwardLate,
  logitsOf,
} from "../../model/graph/network.ts";
import { purposes } from "../../ports/random.ts";
import { countHeat } from "../meters/shard-heat.ts";
import type { StepStage } from "../meters/step-trace.ts";
import type { Read } from "../topology/fresh-and-stale.ts";
import { tableOf } from "../topology/topology.ts";
import { passOf } from "./axes.ts";
import { receiveBagLengths, sendBagLengths } from "./bag-lengths.ts";
import {
  receiveRowGradients,
  receiveRows,
  sendRowGradients,
  sendRows,
} from "./dedup/dedup-dist.ts";
import { type Deferred, findDeferred, receiveDeferred, sendDeferred } from "./deferred.ts";
import type { DeviceState } from "./device-state.ts";
import { evictIds } from "./dynamic-ids.ts";
import { distinctOfSamples, rowsOfSamples, sendBags } from "./input-dist.ts";
import {
  describeParameter,
  describeRows,
  type NonFiniteRows,
  refuseNonFinite,
} from "./non-finite.ts";
import {
  receiveVectorGradients,
  receiveVectors,
  sendVectorGradients,
  sendVectors,
} from "./output-dist.ts";
import { countLabels, foldSlices, receivePerSlice, sendPerSlice } from "./per-slice.ts";
import { arriveRows, releaseRows, type StagedRows, stageRows } from "./prefetch.ts";
import { applyReplicas, backwardReplicas, lookupReplicas, replicaBagsOf } from "./replicas.ts";
import { completeRows, type RowGradients } from "./row-sums.ts";
import { planOf, type StepPlan } from "./step-plan.ts";

export interface StepOutcome {
  /** Mean loss of the batch's samples, before the update. */
  readonly loss: number;
  /** Step after which device 0 was requested to pause; the same on every device. -1: none. */
  readonly stopAfter: number;
}

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
  /** What the update changes of what was read ahead; undefined: no table is read ahead. */
  readonly deferred: Deferred | undefined;
  /** Whether all its vectors are sent (`readRest`). */
  readonly isSent: boolean;
}

/** Hooks by which the next steps overlap a step. Either all devices call a hook, or none does. */
export interface Ahead {
  /**
   * Called when all devices agree on `stopAfter` and this device has sent all data that others wait
   * for: the next steps may begin.
   */
  begin(stopAfter: number): Promise<void>;
  /**
   * Called before the update: the next step may be read ahead (`readAhead`). `current`: the rows of
   * this step. Without stale tables it is called once all vectors of this step are received, so that
   * those of the next one travel during the computation.
   */
  read(current: StagedRows): Promise<void>;
  /** Called after the update of rows: the next step may read the rest of them (`readRest`). */
  readRest(): Promise<void>;
}

const nothing = async () => {};
const alone: Ahead = { begin: nothing, read: nothing, readRest: nothing };

/**
 * Sends the bags of a batch, without waiting for bags of other devices. A step may begin while the
 * previous step computes, as it reads no weight yet. `step` is undefined in an evaluation. Only
 * device 0's `stopAfter` has an effect: device 0 sends it to all.
 * @throws IdOutOfRangeError naming table and sample
 */
export async function beginStep(
  device: DeviceState,
  batch: LocalBatch,
  step: number | undefined,
  stopAfter: number,
): Promise<BegunStep> {
  // Stage 2: input dist.
  device.trace.enter(step, "ids");
  const plan = planOf(device, batch, step);
  const rows = rowsOfSamples(device, batch, plan);
  const requested = distinctOfSamples(device, rows, plan);
  await sendBags(device, rows, requested, plan, stopAfter);
  const pass = passOf(plan, batch, rows, device.topology.axisOf);
  return { batch, plan, rows, requested, pass };
}

/** Receives the bags of a step and requests its rows, while another step may still compute. */
export async function stageStep(device: DeviceState, begun: BegunStep): Promise<StagedStep> {
  // Stage 3: prefetch.
  enter(device, begun.plan, "tiers");
  return { ...begun, staged: await stageRows(device, begun.plan) };
}

/** Waits until the rows of a step are in device memory and may be read. */
async function arriveStep(device: DeviceState, begun: BegunStep | StagedStep): Promise<StagedStep> {
  enter(device, begun.plan, "tiers");
  const step = "staged" in begun ? begun : await stageStep(device, begun);
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
  enter(device, plan, "lookup");
  const { stale, isStale, isAhead } = device.topology.reads;
  await sendRead(device, step, stale);
  // The previous step still uses the memory of replicas, unless it waits for its last gradients.
  const replicaBags = isStale ? replicaBagsOf(device, rows, plan) : undefined;
  lookupReplicas(device, replicaBags, plan, stale);
  const deferred = isAhead ? findDeferred(device, staged, current) : undefined;
  return { ...step, isLate: true, replicaBags, deferred, isSent: false };
}

/** Reads all other rows of a step after the previous step's update, and again those it changed. */
export async function readRest(device: DeviceState, step: LateStep): Promise<LateStep> {
  await sendReads(device, step);
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

/** Reads what `readAhead` has not read. */
async function sendReads(device: DeviceState, step: StagedStep | LateStep): Promise<void> {
  const { plan, staged } = step;
  enter(device, plan, "lookup");
  const { fresh, stale } = device.topology.reads;
  if (!("isLate" in step)) await sendRead(device, step, stale);
  else if (step.deferred) await sendDeferred(device, staged, step.deferred, plan);
  await sendBagLengths(device, staged.bags, plan);
  await sendRead(device, step, fresh);
}

/** Looks up the replicated tables that `readAhead` has not read. Returns their bags. */
function readReplicas(device: DeviceState, step: StagedStep | LateStep): Bags | undefined {
  const { fresh, stale } = device.topology.reads;
  const late = "isLate" in step ? step.replicaBags : undefined;
  const bags = late ?? replicaBagsOf(device, step.rows, step.plan);
  lookupReplicas(device, bags, step.plan, fresh);
  if (late === undefined) lookupReplicas(device, bags, step.plan, stale);
  return bags;
}

/** Receives the vectors, from this device and others, and writes them into the network. */
async function receiveReads(device: DeviceState, step: StagedStep | LateStep): Promise<void> {
  const { rows, requested, plan } = step;
  enter(device, plan, "exchange");
  const isResent = "isLate" in step && step.deferred !== undefined;
  const resent = isResent ? await receiveDeferred(device) : undefined;
  await receiveRows(device, requested, plan, resent);
  await receiveBagLengths(device, plan);
  const steps = plan.isTraining ? plan.step : device.trained.steps;
  await receiveVectors(device, rows, plan, steps, resent);
  if (isResent) device.frames.deferred.close();
}

/** Completes a training step that has begun, and may already be staged or read ahead. */
export async function finishStep(
  device: DeviceState,
  current: BegunStep | StagedStep | LateStep,
  ahead: Ahead = alone,
): Promise<StepOutcome> {
  const { exchange, kernels, network, slab, staleRows, terms, topology } = device;
  const { batch, plan, rows, requested, pass } = current;
  const { step } = plan;
  const { dense, labels, weights } = tensorsOf(device, batch);
  enter(device, plan, "compute");
  await forwardEarly(network, dense, pass); // Overlaps the sending of bags or vectors.
  const isLate = "isLate" in current;
  const arrived = isLate ? current : await arriveStep(device, current);
  const { staged } = arrived;
  const { bags, lookups, stopAfter } = staged;
  const { isStale } = topology.reads;

  // Stage 4: lookup and output dist.
  const isSent = "isLate" in current && current.isSent;
  if (!isSent) await sendReads(device, arrived);
  const replicaBags = readReplicas(device, arrived);
  await ahead.begin(stopAfter);
  staleRows.takeRows(bags, lookups, { step, isLate });
  heatShards(device, staged);
  await receiveReads(device, arrived);
  if (!isStale) await ahead.read(staged);

  // Stage 5: the blocks that need vectors, and the loss, forward and backward.
  enter(device, plan, "compute");
  await forwardLate(network, pass);
  const logits = logitsOf(network, batch.samples);
  const losses = new Float64Array(plan.mine.bounds.length - 1);
  const dLogits = dLogitsOf(network, batch.samples);
  const { batchSamples } = batch;
  const labelled = await countLabels(device, batch, plan);
  kernels.loss(losses, dLogits, logits, labels, terms, batchSamples, plan.mine, weights, labelled);

  await exchange.gradients.open();
  await backwardLate(network, pass);

  // Stage 6: output dist, backward; and the blocks that need no vectors.
  await sendVectorGradients(device, rows, plan);
  await sendRowGradients(device, rows, requested, plan);
  await backwardEarly(network, pass); // Overlaps the sending.
  backwardReplicas(device, rows, replicaBags, plan);
  exchange.gradients.start();
  await sendPerSlice(device, plan.bytes.losses, losses);
  await ahead.begin(stopAfter);
  if (isStale) await ahead.read(staged);

  enter(device, plan, "exchange");
  const dPooled = await receiveVectorGradients(device, staged.axes, plan);
  const dRows = await receiveRowGradients(device, lookups);

  // Stage 7: update of the rows.
  const pooled = { slab, bags, dPooled, slices: plan.all };
  enter(device, plan, "update");
  const badRows = await applyRows(device, [pooled, ...dRows], plan); // S1
  await releaseRows(device, staged);
  exchange.dPooled.close();
  await ahead.readRest();

  // Stage 8: all-reduce, and update of the dense weights.
  enter(device, plan, "allReduce");
  const gradient = await exchange.gradients.finish();
  enter(device, plan, "update");
  staleRows.takeReplicas(kernels, gradient, { step, isLate });
  const badDense = applyDenseGradient(device, gradient, step); // S1
  exchange.gradients.close();
  device.trained.steps = step + 1;

  enter(device, plan, "exchange");
  const loss = foldSlices(await receivePerSlice(device)) / batch.batchSamples;
  const findings = { step, loss, badDense, badRows };
  await refuseNonFinite(device, batch, pass, plan, findings); // S3
  return { loss, stopAfter };
}

/** Trains on one batch without a pipeline, with fresh rows only. */
export async function trainStep(
  device: DeviceState,
  batch: LocalBatch,
  step: number,
  stopAfter: number,
): Promise<StepOutcome> {
  await evictIds(device, step);
  return finishStep(device, await beginStep(device, batch, step, stopAfter));
}

/**
 * Forward only: returns the logits (b,K) of a batch, computed with the moving averages of the dense
 * weights and of rows if the optimizers keep any. Creates no row and changes no weight.
 */
export async function forwardStep(device: DeviceState, batch: LocalBatch): Promise<Tensor> {
  const begun = await beginStep(device, batch, undefined, -1);
  const { kernels, network, recipe, topology, denseState } = device;
  const swap = () => {
    const { layout } = topology.graph;
    swapAverage(kernels, recipe.optimizer.dense, denseState, layout, network.flat);
  };
  swap();
  try {
    const { pass } = begun;
    await forwardEarly(network, tensorsOf(device, batch).dense, pass);
    const arrived = await arriveStep(device, begun);
    await sendReads(device, arrived);
    readReplicas(device, arrived);
    await releaseRows(device, arrived.staged);
    await receiveReads(device, arrived);
    await forwardLate(network, pass);
    return logitsOf(network, batch.samples);
  } finally {
    swap();
  }
}

/** Records in the trace that a stage begins. An evaluation is not traced. */
function enter(device: DeviceState, plan: StepPlan, stage: StepStage): void {
  device.trace.enter(plan.isTraining ? plan.step : undefined, stage);
}

/** Counts the ids of a step for the heat of shards, if that is enabled. */
function heatShards({ heat, rank, topology }: DeviceState, { bags, lookups }: StagedRows): void {
  if (heat === undefined) return;
  const held = { shards: topology.heldBy[rank] ?? [], bags };
  const requested = lookups.map((own) => own.bags);
  countHeat(heat, held, { shards: topology.distinctBy[rank] ?? [], bags: requested });
}

function tensorsOf(device: DeviceState, batch: LocalBatch) {
  const { kernels, topology } = device;
  const { samples, dense, labels, sampleWeights: weights } = batch;
  const { targets = oneLabel } = topology.input;
  const shape = [samples, topology.input.model.dense];
  return {
    dense: kernels.view(dense.buffer, dense.byteOffset, shape),
    labels: kernels.view(labels.buffer, labels.byteOffset, [samples, targets.labels]),
    weights: weights && kernels.view(weights.buffer, weights.byteOffset, [samples]),
  };
}

/**
 * Updates each row of the batch with its gradient. Returns the first table with non-finite
 * gradients; undefined: none.
 */
async function applyRows(
  device: DeviceState,
  gradients: readonly RowGradients[],
  plan: StepPlan,
): Promise<NonFiniteRows | undefined> {
  const updates = gradients.map((own) => {
    return { ...own, rules: rulesOf(device, own.slab, momentOf(device, plan.step)) };
  });
  const completed = await completeRows(device, updates, plan);
  let found: NonFiniteRows | undefined;
  for (const { slab, bags, dPooled, slices, rules } of updates) {
    const sums = completed && slab.shards.map(({ shard }) => completed.get(shard));
    const bad = slab.update(bags, dPooled, slices, rules, sums);
    if (bad >= 0) found ??= describeRows(device, slab, bad, { bags, dPooled });
  }
  return found;
}

/**
 * Applies the summed dense gradient, which is the same on every device. Returns a parameter or
 * table with a non-finite gradient; undefined: none.
 */
function applyDenseGradient(
  device: DeviceState,
  gradient: Tensor,
  step: number,
): string | undefined {
  const { kernels, network, recipe, topology, denseState } = device;
  const { layout } = topology.graph;
  const { dense: optimizer } = recipe.optimizer;
  const dense = kernels.reshape(gradient, [layout.length]);
  const at = momentOf(device, step);
  const isGood = applyDense(kernels, optimizer, denseState, layout, network.flat, dense, at);
  const badReplica = applyReplicas(device, gradient, rulesOf(device, device.replicas, at));
  return isGood ? badReplica : describeParameter(device, dense);
}

function momentOf({ plateau }: DeviceState, step: number): OptimizerStep {
  return { step, plateau: plateau.share };
}

function rulesOf(device: DeviceState, slab: Slab, at: OptimizerStep): RowRule[] {
  const { decays, key, recipe, topology } = device;
  return slab.shards.map(({ table }) => {
    const { l2 } = tableOf(topology.input.model.tables, table);
    const rounding = { key, purpose: purposes.rowRounding + table, step: at.step };
    const rule = rowRuleOf(recipe.optimizer.sparse, l2, at);
    const decay = decays[table];
    return { ...(decay ? decayedRule(rule, decay.shareAt(at.step + 1)) : rule), rounding };
  });
}
