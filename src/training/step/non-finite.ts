// The end of a step that met a NaN or an infinity: a search for the samples and the layer or table,
// and an error. A healthy step runs none of this: the update checks each gradient as it passes over
// it anyway.

import type { Slab } from "../../embedding/rows/slab.ts";
import { NonFiniteGradientError, NonFiniteLossError } from "../../errors/errors.ts";
import type { PartBytes } from "../../exchange/exchange.ts";
import type { Kernels, Tensor } from "../../kernels/contract/kernels.ts";
import type { Slices } from "../../kernels/contract/slices.ts";
import { logitsOf, lookupGradients, type Network } from "../../model/graph/network.ts";
import { samplesOf } from "../topology/topology.ts";
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
 * (B,C) that is not finite; no samples where gradients arrived row by row.
 */
export function describeRows(
  device: NonFiniteDevice,
  slab: Slab,
  position: number,
  dPooled: Tensor,
): NonFiniteRows {
  const { kernels, rank, topology } = device;
  if (slab !== device.slab) return { of: `table \`${slab.shards[position]?.name}\``, samples: [] };
  const shard = topology.heldBy[rank]?.[position];
  const [first] = shard?.lookups ?? [];
  if (first === undefined) throw new RangeError(`Device ${rank} has no shard at ${position}`);
  const { name, ofShard } = first;
  const own = kernels.tensor([dPooled.shape[0] ?? 0, ofShard.columns]);
  kernels.copyColumns(own, 0, dPooled, ofShard.column, ofShard.columns);
  return { of: `table \`${name}\``, samples: badRowsOf(kernels, own) };
}

/**
 * Returns where all is finite. Loss and dense gradient are the same on every device, so all devices
 * find them wrong together. Then each tells the others, in one more round of the losses' exchange,
 * the first bad sample of each slice.
 * @throws NonFiniteLossError, NonFiniteGradientError
 */
export async function refuseNonFinite(
  device: NonFiniteDevice,
  batch: { readonly samples: number; readonly batchSamples: number },
  plan: SlicePlan,
  findings: NonFiniteFindings,
): Promise<void> {
  const { step, loss, badDense, badRows } = findings;
  if (!Number.isFinite(loss) || badDense !== undefined) {
    const samples = await shareSamples(device, batch, plan);
    if (!Number.isFinite(loss)) throw new NonFiniteLossError(step, loss, samples);
    throw new NonFiniteGradientError(step, badDense ?? "the model", samples);
  }
  if (badRows !== undefined) throw new NonFiniteGradientError(step, badRows.of, badRows.samples);
}

/** The slices of this device, and the bytes that each device sends for its slices. */
interface SlicePlan {
  readonly bytes: { readonly losses: PartBytes };
  readonly mine: Slices;
}

/** The first sample of each slice with a logit or gradient that is not finite, of all devices. */
async function shareSamples(
  device: NonFiniteDevice,
  batch: { readonly samples: number; readonly batchSamples: number },
  plan: SlicePlan,
): Promise<number[]> {
  const { kernels, network, topology, rank } = device;
  const { first } = samplesOf(topology, rank, batch.batchSamples);
  const found = [logitsOf(network, batch.samples), ...lookupGradients(network, batch.samples)];
  const bad = new Set(found.flatMap((tensor) => badRowsOf(kernels, tensor)));
  const { bounds } = plan.mine;
  const firsts = Float64Array.from({ length: bounds.length - 1 }, (_, slice) => {
    for (let b = bounds[slice] ?? 0; b < (bounds[slice + 1] ?? 0); b++) {
      if (bad.has(b)) return first + b;
    }
    return -1;
  });
  await sendPerSlice(device, plan.bytes.losses, firsts);
  return [...(await receivePerSlice(device))].filter((sample) => sample >= 0);
}

/** The rows of t (B,·) that hold a NaN or an infinity. */
function badRowsOf(kernels: Kernels, t: Tensor): number[] {
  const rows = Array.from({ length: t.shape[0] ?? 0 }, (_, row) => row);
  return rows.filter((row) => kernels.firstNonFinite(kernels.part(t, row, 1)) >= 0);
}
