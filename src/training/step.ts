// One step of hybrid-parallel training on one device: the centre of the house.
//
// Hops 2 to 8 of docs/architecture.md, in order. It is an async function that suspends only at the
// exchange's named waits; kernels are ordinary calls. On a device's thread the waits block and the
// promises are already resolved; in the simulator they park. The same code runs in both.
//
// b = samples of this device, B = samples of the batch, F = features, D = dim.
//
// Invariants
//   S1. Weights change only in `applyRows` and `applyDense`, after all that was sent has arrived.
//   S2. Nothing here knows how many devices there are but by asking the topology (law 4).
//   S3. A step whose loss or gradient is not finite ends in an error, so no cut follows it.

import { type BagTable, featureStarts, writeIdFrame } from "../embedding/bags.ts";
import { rowRuleOf } from "../embedding/options.ts";
import type { Slab } from "../embedding/slab.ts";
import type { LocalBatch } from "../exchange/batch-ring.ts";
import type { Region } from "../exchange/exchange.ts";
import type { Bags, Tensor } from "../kernels/kernels.ts";
import { type Slices, slicesOf } from "../kernels/slices.ts";
import { applyDense } from "../model/dense-optimizer.ts";
import {
  backwardBottom,
  backwardTop,
  columnOf,
  columnsOf,
  forwardBottom,
  forwardTop,
} from "../model/dlrm.ts";
import type { Dropout } from "../model/mlp.ts";
import { purposes } from "../random.ts";
import type { DeviceState } from "./device-state.ts";
import { describeParameter, describeRows, refuseNonFinite } from "./non-finite.ts";
import { foldSlices, receivePerSlice, sendPerSlice } from "./per-slice.ts";
import { partBytesOf, samplesOf, tableOf } from "./topology.ts";

export interface StepOutcome {
  /** Mean binary cross-entropy of the batch, before the update. */
  readonly loss: number;
  /** Step after which device 0 was asked to pause; the same on every device. -1: none. */
  readonly stopAfter: number;
}

/** Trains on one batch. `stopAfter` is read on device 0 only, which carries it to all. */
export async function trainStep(
  device: DeviceState,
  batch: LocalBatch,
  step: number,
  stopAfter: number,
): Promise<StepOutcome> {
  const { exchange, kernels, model, slab } = device;
  const plan = planOf(device, batch, step);

  await sendIds(device, batch, plan, stopAfter);
  const { dense, labels } = tensorsOf(device, batch);
  forwardBottom(model, dense); // While the ids are on their way.
  const received = await receiveIds(device, plan);

  await sendPooled(device, received.bags, plan);
  const replicaBags = lookupReplicas(device, batch);
  await receivePooled(device, plan);

  const logits = forwardTop(model, batch.samples, plan.dropout);
  const losses = new Float64Array(plan.mine.bounds.length - 1);
  const dLogits = kernels.part(device.dLogits, 0, batch.samples);
  kernels.bceWithLogits(losses, dLogits, logits, labels, batch.batchSamples, plan.mine);

  await exchange.gradients.open();
  backwardTop(model, dLogits, plan.mine, device.gradients, plan.dropout);
  await sendPooledGradients(device, plan);
  backwardBottom(model, dense, plan.mine, device.gradients); // While those travel.
  backwardReplicas(device, replicaBags, plan);
  exchange.gradients.start();
  await sendPerSlice(device, plan.bytes.losses, losses);

  const dPooled = await receivePooledGradients(device, plan);
  const badTable = slab.update(received.bags, dPooled, plan.all, rulesOf(device, slab, step)); // S1
  const badRows = badTable < 0 ? undefined : describeRows(device, badTable, dPooled);
  exchange.dPooled.close();

  const gradient = await exchange.gradients.finish();
  const badDense = applyDenseGradient(device, gradient, step); // S1
  exchange.gradients.close();

  const loss = foldSlices(await receivePerSlice(device)) / batch.batchSamples;
  const findings = { step, loss, badDense, badRows };
  await refuseNonFinite(device, batch, plan, findings); // S3
  return { loss, stopAfter: received.stopAfter };
}

/** Forward only: logits (b,1) of a batch. Creates nothing, changes nothing. */
export async function forwardStep(device: DeviceState, batch: LocalBatch): Promise<Tensor> {
  const plan = planOf(device, batch, 0);
  await sendIds(device, batch, plan, -1);
  forwardBottom(device.model, tensorsOf(device, batch).dense);
  const { bags } = await receiveIds(device, plan);
  await sendPooled(device, bags, plan);
  lookupReplicas(device, batch);
  await receivePooled(device, plan);
  return forwardTop(device.model, batch.samples);
}

/** Sizes of this step, equal on all devices, and this device's place in it. */
interface StepPlan {
  readonly bytes: ReturnType<typeof partBytesOf>;
  /** Samples of each device. */
  readonly counts: readonly number[];
  /** The slices of this device, and those of the whole batch. */
  readonly mine: Slices;
  readonly all: Slices;
  readonly dropout: Dropout;
}

function planOf(device: DeviceState, batch: LocalBatch, step: number): StepPlan {
  const { topology, rank } = device;
  const { slices } = topology.placement;
  const samples = batch.batchSamples;
  const placed = topology.placement.devices[rank];
  const own = samplesOf(topology, rank, samples);
  return {
    bytes: partBytesOf(topology, samples),
    counts: topology.tablesOf.map((_, peer) => samplesOf(topology, peer, samples).count),
    mine: slicesOf(placed?.firstSlice ?? 0, placed?.slices ?? 0, slices, samples),
    all: slicesOf(0, slices, slices, samples),
    dropout: {
      rate: topology.input.model.dropout,
      key: device.key,
      purpose: purposes.dropout,
      step,
      firstSample: own.first,
    },
  };
}

function tensorsOf(device: DeviceState, batch: LocalBatch) {
  const { kernels, topology } = device;
  const { dense, labels } = batch;
  const shape = [batch.samples, topology.input.model.dense];
  return {
    dense: kernels.view(dense.buffer, dense.byteOffset, shape),
    labels: kernels.view(labels.buffer, labels.byteOffset, [batch.samples]),
  };
}

// Hop 2: ids, to the devices that hold their rows ----

async function sendIds(
  device: DeviceState,
  batch: LocalBatch,
  plan: StepPlan,
  stopAfter: number,
): Promise<void> {
  const { exchange, topology } = device;
  const starts = featureStarts(batch, topology.input.idsMax.length);
  await exchange.ids.open(plan.bytes.ids);
  for (const [peer, tables] of topology.tablesOf.entries()) {
    writeIdFrame(intsOf(exchange.ids.outbox(peer)), batch, tables, starts, stopAfter);
  }
  exchange.ids.start();
}

async function receiveIds(
  device: DeviceState,
  plan: StepPlan,
): Promise<{ bags: Bags; stopAfter: number }> {
  const { exchange, topology, rank } = device;
  const inbox = await exchange.ids.finish();
  const tables = topology.tablesOf[rank] ?? [];
  let byteOffset = inbox.byteOffset;
  const frames = plan.counts.map((samples, peer) => {
    const byteLength = plan.bytes.ids(peer, rank);
    const ints = intsOf({ buffer: inbox.buffer, byteOffset, byteLength });
    byteOffset += byteLength;
    return { ints, samples };
  });
  const bags = device.bags.gather(frames, bagTablesOf(device, tables));
  const stopAfter = frames[0]?.ints[0] ?? -1;
  exchange.ids.close();
  return { bags, stopAfter };
}

function bagTablesOf(device: DeviceState, tables: readonly number[]): BagTable[] {
  return tables.map((table) => tableOf(device.topology.bagTables, table));
}

// Hops 3 and 4: rows looked up and pooled, back to the devices of the samples ----

async function sendPooled(device: DeviceState, bags: Bags, plan: StepPlan): Promise<void> {
  const { exchange, kernels, slab } = device;
  await exchange.pooled.open(plan.bytes.pooled);
  let first = 0;
  for (const [peer, count] of plan.counts.entries()) {
    const { buffer, byteOffset } = exchange.pooled.outbox(peer);
    const out = kernels.view(buffer, byteOffset, [count, slab.columns]);
    if (slab.columns > 0) slab.lookup(out, bags, first, count);
    first += count;
  }
  exchange.pooled.start();
}

async function receivePooled(device: DeviceState, plan: StepPlan): Promise<void> {
  const { exchange, kernels, model, rank, topology } = device;
  const { dim } = topology.shape;
  const samples = plan.counts[rank] ?? 0;
  const x = columnsOf(model, model.x, samples);
  const inbox = await exchange.pooled.finish();
  let byteOffset = inbox.byteOffset;
  for (const [peer, tables] of topology.tablesOf.entries()) {
    const columns = topology.columnsOf[peer] ?? 0;
    const pooled = kernels.view(inbox.buffer, byteOffset, [samples, columns]);
    for (const [i, table] of tables.entries()) {
      kernels.copyColumns(x, columnOf(topology.shape, table), pooled, i * dim, dim);
    }
    byteOffset += plan.bytes.pooled(peer, rank);
  }
  exchange.pooled.close();
}

/** Tables that are copied to every device: looked up at home. */
function lookupReplicas(device: DeviceState, batch: LocalBatch): Bags | undefined {
  const { kernels, model, rank, replicas, topology } = device;
  const { replicated, shape } = topology;
  if (replicated.length === 0) return undefined;
  const idsMax = replicated.map((table) => topology.input.idsMax[table] ?? 0);
  const frame = device.replicaBags.frame(batch.samples, idsMax);
  const starts = featureStarts(batch, topology.input.idsMax.length);
  writeIdFrame(frame, batch, replicated, starts, -1);
  const { first } = samplesOf(topology, rank, batch.batchSamples);
  const tables = bagTablesOf(device, replicated);
  const frames = [{ ints: frame, samples: batch.samples }];
  const bags = device.replicaBags.gather(frames, tables, first);
  const pooled = kernels.part(device.replicaPooled, 0, batch.samples);
  replicas.lookup(pooled, bags, 0, batch.samples);
  const x = columnsOf(model, model.x, batch.samples);
  for (const [i, table] of replicated.entries()) {
    kernels.copyColumns(x, columnOf(shape, table), pooled, i * shape.dim, shape.dim);
  }
  return bags;
}

// Hop 6: gradients of pooled embeddings, to the devices that hold the rows ----

async function sendPooledGradients(device: DeviceState, plan: StepPlan): Promise<void> {
  const { exchange, kernels, model, rank, topology } = device;
  const { dim } = topology.shape;
  const samples = plan.counts[rank] ?? 0;
  const dX = columnsOf(model, model.dX, samples);
  await exchange.dPooled.open(plan.bytes.dPooled);
  for (const [peer, tables] of topology.tablesOf.entries()) {
    const { buffer, byteOffset } = exchange.dPooled.outbox(peer);
    const out = kernels.view(buffer, byteOffset, [samples, topology.columnsOf[peer] ?? 0]);
    for (const [i, table] of tables.entries()) {
      kernels.copyColumns(out, i * dim, dX, columnOf(topology.shape, table), dim);
    }
  }
  exchange.dPooled.start();
}

/** The gradients of all samples lie side by side in the inbox, in the order of the batch. */
async function receivePooledGradients(device: DeviceState, plan: StepPlan): Promise<Tensor> {
  const { exchange, kernels, slab } = device;
  const { buffer, byteOffset } = await exchange.dPooled.finish();
  const samples = plan.counts.reduce((sum, count) => sum + count, 0);
  return kernels.view(buffer, byteOffset, [samples, slab.columns]);
}

function backwardReplicas(device: DeviceState, bags: Bags | undefined, plan: StepPlan): void {
  if (bags === undefined) return;
  const { kernels, model, replicas, topology, rank } = device;
  const { dim } = topology.shape;
  const samples = plan.counts[rank] ?? 0;
  const dX = columnsOf(model, model.dX, samples);
  const dPooled = kernels.part(device.replicaPooled, 0, samples);
  for (const [i, table] of topology.replicated.entries()) {
    kernels.copyColumns(dPooled, i * dim, dX, columnOf(topology.shape, table), dim);
  }
  for (const [i, { dRows, counts }] of device.replicaGradients.entries()) {
    kernels.dRows(dRows, counts, replicas.rowsOf, i, bags, dPooled, plan.mine);
  }
}

// Hops 7 and 8: dense gradients, added up and applied, the same on every device ----

/** What the gradient that is not finite belongs to: the same on every device; undefined: none. */
function applyDenseGradient(
  device: DeviceState,
  gradient: Tensor,
  step: number,
): string | undefined {
  const { kernels, model, recipe, replicas, topology } = device;
  const { layout } = topology.shape;
  const dense = kernels.reshape(gradient, [layout.length]);
  const { denseState } = device;
  const allFinite = applyDense(
    kernels,
    recipe.optimizer.dense,
    denseState,
    layout,
    model.flat,
    dense,
    step,
  );
  let bad = allFinite ? undefined : describeParameter(device, dense);
  const rules = rulesOf(device, replicas, step);
  for (const [i, table] of topology.replicated.entries()) {
    const rows = replicas.rowsOf[i];
    const rule = rules[i];
    const at = topology.replicatedAt[i];
    if (rows === undefined || rule === undefined || at === undefined) continue;
    const dRows = kernels.reshape(gradient, [rows.rows, rows.dim], at.gradient);
    const counts = kernels.reshape(gradient, [rows.rows], at.counts);
    const { name, l2Scope } = tableOf(topology.input.model.tables, table);
    const good = kernels.applyRows(rows, dRows, counts, rule, l2Scope === "table");
    if (!good) bad ??= `table \`${name}\``;
  }
  return bad;
}

function rulesOf(device: DeviceState, slab: Slab, step: number) {
  const { key, recipe, topology } = device;
  return slab.tables.map((table) => {
    const { l2 } = tableOf(topology.input.model.tables, table);
    const rounding = { key, purpose: purposes.rowRounding + table, step };
    return { ...rowRuleOf(recipe.optimizer.sparse, l2, step), rounding };
  });
}

function intsOf({ buffer, byteOffset, byteLength }: Region): Int32Array {
  return new Int32Array(buffer, byteOffset, byteLength / 4);
}
