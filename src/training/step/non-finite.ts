// The end of a step that met a NaN or an infinity: a search for the samples and the layer or table,
// and an error. A healthy step runs none of this: the update checks each gradient as it passes over
// it anyway.

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

/** What the search for a value that is not finite needs of a device. */
export interface NonFiniteDevice extends StageDevice<"losses"> {
  readonly kernels: Kernels;
  readonly network: Network;
  /** The slab of pooled tables: only its gradients name samples. */
  readonly slab: Slab;
}

/** What a device knows at the end of a failed step. */
export interface NonFiniteFindings {
  readonly step: number;
  /** Loss of the whole batch: the same on every device. */
  readonly loss: number;
  /** Parameter or replicated table: the same on every device. */
  readonly badDense: string | undefined;
  /** A table of this device. The other devices do not know of it. */
  readonly badRows: NonFiniteRows | undefined;
}

export interface NonFiniteRows {
  readonly of: string;
  readonly samples: readonly number[];
}

/** The last parameter with a gradient that is not finite: the backward pass met it first. */
export function describeParameter(device: NonFiniteDevice, gradient: Tensor): string {
  const { kernels, topology } = device;
  const bad = topology.graph.layout.parameters.findLast(
    ({ first, length, isStatistic }) =>
      !isStatistic && kernels.firstNonFinite(kernels.reshape(gradient, [length], first)) >= 0,
  );
  return `parameter \`${bad?.name}\``;
}

/**
 * The table of the shard at `position` of a slab of this device, and the samples with a dPooled
 * (B,C) that is not finite; of samples that share a distinct list, one place in their slice. No
 * samples where gradients arrived row by row.
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
  // Where a bag is empty, its gradient is any value.
  const hasIds = (bag: number) => bags.offsets[bag + 1] !== bags.offsets[bag];
  const samples = badRowsOf(kernels, own).filter((sample) => bagsIn(sample).some(hasIds));
  return { of: `table \`${name}\``, samples };
}

/**
 * Returns where all is finite. Loss and dense gradient are the same on every device, so all devices
 * find them wrong together. Then each tells the others, in more rounds of the losses' exchange, the
 * first bad sample of each slice, and where that one went wrong.
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

/**
 * The first sample of each slice of this device with a logit or gradient that is not finite; -1:
 * none.
 */
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

/** One round: for each slice of the batch the value of its first bad sample; -1: it has none. */
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

/** The first block with an output that is not finite, over all devices; and the task behind it. */
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

/** What gives column `column` of a node's output. */
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
