// The end of a step that met a NaN or an infinity: finds the samples and the layer or table, and
// throws an error. A healthy step runs none of this code: the update detects bad values while it
// applies the gradients.

import type { Slab } from "../../embedding/rows/slab.ts";
import { NonFiniteGradientError, NonFiniteLossError } from "../../errors/errors.ts";
import type { PartBytes } from "../../exchange/exchange.ts";
import type { Bags, Kernels, Tensor } from "../../kernels/contract/kernels.ts";
import type { Slices } from "../../kernels/contract/slices.ts";
import type { Pass } from "../../model/graph/graph.ts";
import { logitsOf, lookupGradients, type Network, rowOf } from "../../model/graph/network.ts";
import { samplesOf, type Topology, tableOf } from "../topology/topology.ts";
import { receivePerSlice, sendPerSlice } from "./per-slice.ts";
import type { StageDevice } from "./stage-device.ts";

/** The part of a device that the search for non-finite values needs. */
export interface NonFiniteDevice extends StageDevice<"losses"> {
  readonly kernels: Kernels;
  readonly network: Network;
  /** The slab of pooled tables: only its gradients are per sample. */
  readonly slab: Slab;
}

/** The findings of one device at the end of a failed step. */
export interface NonFiniteFindings {
  readonly step: number;
  /** Loss of the whole batch: the same on every device. */
  readonly loss: number;
  /** A parameter or replicated table with a bad gradient: the same on every device. */
  readonly badDense: string | undefined;
  /** A table of this device with bad gradients; unknown to the other devices. */
  readonly badRows: NonFiniteRows | undefined;
}

export interface NonFiniteRows {
  readonly of: string;
  readonly samples: readonly number[];
}

/** Describes the last parameter with a non-finite gradient: the backward pass reached it first. */
export function describeParameter(device: NonFiniteDevice, gradient: Tensor): string {
  const { kernels, topology } = device;
  const bad = topology.graph.layout.parameters.findLast(
    ({ first, length, isStatistic }) =>
      !isStatistic && kernels.firstNonFinite(kernels.reshape(gradient, [length], first)) >= 0,
  );
  return `parameter \`${bad?.name}\``;
}

/**
 * Describes the table of the shard at `position` of a slab of this device, and the samples with a
 * non-finite dPooled (B,C); samples that share a distinct list count as one place in their slice.
 * Where gradients arrived row by row, no samples are known.
 */
export function describeRows(
  device: NonFiniteDevice,
  slab: Slab,
  position: number,
  { bags, dPooled }: { readonly bags: Bags; readonly dPooled: Tensor },
): NonFiniteRows {
  const { kernels, rank, topology } = device;
  if (slab !== device.slab) return { of: `table \`${slab.shards[position]?.name}\``, samples: [] };
  const shard = topology.heldBy[rank]?.[position];
  const [first] = shard?.lookups ?? [];
  if (first === undefined) throw new RangeError(`Device ${rank} has no shard at ${position}`);
  const { name, ofShard } = first;
  const own = kernels.tensor([dPooled.shape[0] ?? 0, ofShard.columns]);
  kernels.copyColumns(own, 0, dPooled, ofShard.column, ofShard.columns);
  const at = topology.lookupsBy[rank]?.indexOf(first) ?? 0;
  const bagsIn = (sample: number) =>
    (shard?.lookups ?? []).map((_, i) => (at + i) * bags.samples + sample);
  // The gradient of an empty bag is unspecified.
  const hasIds = (bag: number) => bags.offsets[bag + 1] !== bags.offsets[bag];
  const samples = badRowsOf(kernels, own).filter((sample) => bagsIn(sample).some(hasIds));
  return { of: `table \`${name}\``, samples };
}

/**
 * Returns if all values are finite. Loss and dense gradient are the same on every device, so all
 * devices detect bad ones together. Each device then sends the others the first bad sample of each
 * of its slices and the origin of the bad value, in more rounds on the channel of the losses.
 * @throws NonFiniteLossError, NonFiniteGradientError
 */
export async function refuseNonFinite(
  device: NonFiniteDevice,
  batch: { readonly samples: number; readonly batchSamples: number },
  pass: Pass,
  plan: SlicePlan,
  findings: NonFiniteFindings,
): Promise<void> {
  const { step, loss, badDense, badRows } = findings;
  if (!Number.isFinite(loss) || badDense !== undefined) {
    const own = badSamplesOf(device, batch, pass, plan.mine);
    const { first } = samplesOf(device.topology, device.rank, batch.batchSamples);
    const share = (value: (sample: number) => number) => shareOf(device, plan, own, value);
    const found = await share((sample) => first + sample);
    const samples = found.filter((sample) => sample >= 0);
    if (!Number.isFinite(loss))
      throw new NonFiniteLossError(step, loss, samples, await originOf(device, pass, share));
    throw new NonFiniteGradientError(step, badDense ?? "the model", samples);
  }
  if (badRows !== undefined) throw new NonFiniteGradientError(step, badRows.of, badRows.samples);
}

/** The slices of this device, and the bytes that each device sends for its slices. */
interface SlicePlan {
  readonly bytes: { readonly losses: PartBytes };
  readonly mine: Slices;
}

/** The first sample of each slice of this device with a non-finite logit or gradient; -1: none. */
function badSamplesOf(
  { kernels, network }: NonFiniteDevice,
  { samples }: { readonly samples: number },
  pass: Pass,
  { bounds }: Slices,
): number[] {
  const all = [{ axis: 0, of: logitsOf(network, samples) }, ...lookupGradients(network, pass)];
  const found = all.map(({ axis, of }) => ({ axis, rows: new Set(badRowsOf(kernels, of)) }));
  const isBad = (b: number) => found.some(({ axis, rows }) => rows.has(rowOf(pass, axis, b)));
  return Array.from({ length: bounds.length - 1 }, (_, slice) => {
    for (let b = bounds[slice] ?? 0; b < (bounds[slice + 1] ?? 0); b++) if (isBad(b)) return b;
    return -1;
  });
}

/**
 * One round: returns for each slice of the batch the `value` of its first bad sample; -1: the slice
 * has none.
 */
async function shareOf(
  device: NonFiniteDevice,
  { bytes }: SlicePlan,
  own: readonly number[],
  value: (sample: number) => number,
): Promise<number[]> {
  const values = Float64Array.from(own, (sample) => (sample < 0 ? -1 : value(sample)));
  await sendPerSlice(device, bytes.losses, values);
  return [...(await receivePerSlice(device))];
}

/** The first block with a non-finite output, over all devices; and the task whose logit is bad. */
async function originOf(
  device: NonFiniteDevice,
  pass: Pass,
  share: (value: (sample: number) => number) => Promise<number[]>,
): Promise<{ layer?: string; task?: string }> {
  const { topology, network } = device;
  const { graph } = topology;
  const firstIn = (tensor: Tensor, row: number) =>
    device.kernels.firstNonFinite(device.kernels.part(tensor, row, 1));
  const firstAt = (cell: Network["cells"][number] | undefined, sample: number) =>
    cell === undefined ? -1 : firstIn(cell.out, rowOf(pass, cell.axis, sample));
  const nodeOf = (sample: number) => network.cells.findIndex((cell) => firstAt(cell, sample) >= 0);
  const nodes = await share(nodeOf);
  const columns = await share((sample) => firstAt(network.cells[nodeOf(sample)], sample));
  const logits = await share((sample) => firstIn(logitsOf(network, sample + 1), sample));
  const node = Math.min(...nodes.filter((one) => one >= 0));
  if (!Number.isFinite(node)) return {};
  const slice = nodes.indexOf(node);
  const layer = layerOf(topology, node, columns[slice] ?? -1);
  const task = graph.objectives.find(({ logit }) => logit === logits[slice])?.task;
  return { layer, ...(graph.objectives.length > 1 && task !== undefined && { task }) };
}

/** Names the source of column `column` of a node's output, for the error message. */
function layerOf(
  { graph, lookups, input }: Pick<Topology, "graph" | "lookups" | "input">,
  index: number,
  column: number,
): string {
  if (index === graph.dense?.node) return "the dense features";
  const node = graph.nodes[index];
  if (node?.hasLookups === true) {
    const lookup = graph.places.findLastIndex((place) => {
      return place.node === index && place.column <= column;
    });
    return `the vectors of table \`${tableOf(input.model.tables, lookups[lookup]?.table ?? 0).name}\``;
  }
  const [parameter] = node?.parameters ?? [];
  if (parameter !== undefined) return `layer \`${parameter.name.replace(/\.[^.]*$/, "")}\``;
  return `what follows ${layerOf({ graph, lookups, input }, node?.inputs[0]?.node ?? -1, 0)}`;
}

/** The rows of t (B,·) that hold a NaN or an infinity. */
function badRowsOf(kernels: Kernels, t: Tensor): number[] {
  const rows = Array.from({ length: t.shape[0] ?? 0 }, (_, row) => row);
  return rows.filter((row) => kernels.firstNonFinite(kernels.part(t, row, 1)) >= 0);
}
