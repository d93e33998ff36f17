// One step of hybrid-parallel training on one device.
//
// Stages are numbered as in docs/architecture.md, "One step"; readers run stage 1, the reading. A
// step is an async function that suspends only at the exchange's named waits; kernels are ordinary
// calls. On a device's thread the waits block and the promises are already resolved; in the
// simulator the waits suspend the function. The same code runs in both. `enter` names the tasks of
// the step graph (step-graph.ts), which lists what each of them sends and waits for.
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
import type { OptimizerStep } from "../../embedding/tables/row-rule.ts";
import type { LocalBatch } from "../../exchange/batch-ring.ts";
import type { Tensor } from "../../kernels/contract/kernels.ts";
import { applyDense, swapAverage } from "../../model/dense-optimizer.ts";
import {
  backwardEarly,
  backwardLate,
  dLogitsOf,
  forwardEarly,
  forwardLate,
  logitsOf,
} from "../../model/graph/network.ts";
import { countHeat } from "../meters/shard-heat.ts";
import { passOf } from "./axes.ts";
import { receiveRowGradients, sendRowGradients } from "./dedup/dedup-dist.ts";
import type { DeviceState } from "./device-state.ts";
import { evictIds } from "./dynamic-ids.ts";
import { distinctOfSamples, rowsOfSamples, sendBags } from "./input-dist.ts";
import {
  describeParameter,
  describeRows,
  type NonFiniteRows,
  refuseNonFinite,
} from "./non-finite.ts";
import { countLabels, foldSlices, receivePerSlice, sendPerSlice } from "./per-slice.ts";
import { releaseRows, type StagedRows } from "./prefetch.ts";
import {
  arriveStep,
  type BegunStep,
  enter,
  type LateStep,
  readReplicas,
  receiveReads,
  type StagedStep,
  sendReads,
} from "./reads.ts";
import { applyReplicas, backwardReplicas } from "./replicas.ts";
import { rowRulesOf } from "./row-rules.ts";
import { completeRows, type RowGradients } from "./row-sums.ts";
import { planOf, type StepPlan } from "./step-plan.ts";
import { receiveVectorGradients, sendVectorGradients } from "./vector-gradients.ts";

export interface StepOutcome {
  /** Mean loss of the batch's samples, before the update. */
  readonly loss: number;
  /** Step after which device 0 was requested to pause; the same on every device. -1: none. */
  readonly stopAfter: number;
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
   * this step. Without stale tables it is called once all vectors of this step are received, so
   * that those of the next one travel during the computation.
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
  const isLate = "isLate" in current;
  const arrived = isLate ? current : await arriveStep(device, current);
  const { staged } = arrived;
  const { bags, lookups, stopAfter } = staged;
  const { isStale } = topology.reads;

  // Stage 4: lookup and output dist.
  await sendReads(device, arrived);
  const replicaBags = readReplicas(device, arrived);
  enter(device, plan, "forwardEarly");
  await forwardEarly(network, dense, pass); // Overlaps the sending of vectors.
  await ahead.begin(stopAfter);
  staleRows.takeRows(bags, lookups, { step, isLate });
  heatShards(device, staged);
  await receiveReads(device, arrived);
  if (!isStale) await ahead.read(staged);

  // Stage 5: the blocks that need vectors, and the loss, forward and backward.
  enter(device, plan, "forwardLate");
  await forwardLate(network, pass);
  const logits = logitsOf(network, batch.samples);
  const losses = new Float64Array(plan.mine.bounds.length - 1);
  const dLogits = dLogitsOf(network, batch.samples);
  const { batchSamples } = batch;
  const labelled = await countLabels(device, batch, plan);
  kernels.loss(losses, dLogits, logits, labels, terms, batchSamples, plan.mine, weights, labelled);

  enter(device, plan, "backwardLate");
  await exchange.gradients.open();
  const progress = {
    ended(node: number) {
      exchange.gradients.start(topology.readyAfter[node]);
      exchange.gradients.progress();
    },
    isEach: device.isAcross, // On one host no bytes travel meanwhile.
  };
  await backwardLate(network, pass, progress);

  // Stage 6: output dist, backward; and the blocks that need no vectors.
  enter(device, plan, "sendGradients");
  await sendVectorGradients(device, rows, plan);
  exchange.gradients.progress();
  await sendRowGradients(device, rows, requested, plan);
  enter(device, plan, "backwardEarly");
  await backwardEarly(network, pass, progress); // Overlaps the sending.
  backwardReplicas(device, rows, replicaBags, plan);
  exchange.gradients.start();
  exchange.gradients.progress();
  await sendPerSlice(device, plan.bytes.losses, losses);
  await ahead.begin(stopAfter);
  if (isStale) await ahead.read(staged);

  enter(device, plan, "receiveGradients");
  const dPooled = await receiveVectorGradients(device, staged.axes, plan);
  exchange.gradients.progress();
  const dRows = await receiveRowGradients(device, lookups);
  exchange.gradients.progress();

  // Stage 7: update of the rows.
  const pooled = { slab, bags, dPooled, slices: plan.all };
  enter(device, plan, "updateRows");
  const badRows = await applyRows(device, [pooled, ...dRows], plan); // S1
  await releaseRows(device, staged);
  exchange.dPooled.close();
  await ahead.readRest();

  // Stage 8: all-reduce, and update of the dense weights.
  enter(device, plan, "allReduce");
  const gradient = await exchange.gradients.finish();
  enter(device, plan, "updateDense");
  staleRows.takeReplicas(kernels, gradient, { step, isLate });
  const badDense = applyDenseGradient(device, gradient, step); // S1
  exchange.gradients.close();
  device.trained.steps = step + 1;

  enter(device, plan, "losses");
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
    const arrived = await arriveStep(device, begun);
    await sendReads(device, arrived);
    readReplicas(device, arrived);
    await forwardEarly(network, tensorsOf(device, batch).dense, pass);
    await releaseRows(device, arrived.staged);
    await receiveReads(device, arrived);
    await forwardLate(network, pass);
    return logitsOf(network, batch.samples);
  } finally {
    swap();
  }
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
    return { ...own, rules: rowRulesOf(device, own.slab, momentOf(device, plan.step)) };
  });
  const completed = await completeRows(device, updates, plan);
  let found: NonFiniteRows | undefined;
  for (const { slab, bags, dPooled, slices, rules } of updates) {
    const sums = completed && slab.shards.map(({ shard }) => completed.get(shard));
    const bad = slab.update(bags, dPooled, slices, rules, sums);
    if (bad >= 0) found ??= describeRows(device, slab, bad, { bags, dPooled });
    device.exchange.gradients.progress();
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
  const badReplica = applyReplicas(device, gradient, rowRulesOf(device, device.replicas, at));
  return isGood ? badReplica : describeParameter(device, dense);
}

function momentOf({ plateau }: DeviceState, step: number): OptimizerStep {
  return { step, plateau: plateau.share };
}
