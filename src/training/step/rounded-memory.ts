// Memory for pooled vectors that cannot be sent as they are pooled: because they are rounded to
// fewer bits, added up on the way, or interleaved with other columns.

import type { Kernels, Tensor } from "../../kernels/contract/kernels.ts";
import { sendListOf, vectorFloats } from "../topology/shard-groups.ts";
import { samplesMaxOf, type Topology } from "../topology/topology.ts";

/**
 * Memory for repacked vectors. The tensors are empty where all vectors are sent as they are pooled.
 */
export interface RoundedMemory {
  /** (bmax of all devices, columns of the slab) */
  readonly held: Tensor;
  /** (B, columns of the slab) */
  readonly heldGradients: Tensor;
  /**
   * Flat: the received vectors, shard group after shard group. Before that, an aggregator uses the
   * memory for the parts of a host sum.
   */
  readonly vectors: Tensor;
  /** First float of each shard group in `vectors`. */
  readonly firstOf: readonly number[];
  /**
   * Flat: the vectors of one shard group for one device's samples; `packed` is for the same vectors
   * packed.
   */
  readonly scratch: Tensor;
  readonly packed: ArrayBuffer;
}

export function createRounded(kernels: Kernels, topology: Topology, rank: number): RoundedMemory {
  const { exchange, shardGroupsOf, replicatedGroups, isPlain, columnsOf } = topology;
  const isForward = exchange.forward !== "float32";
  const isBackward = exchange.backward !== "float32";
  const counts = samplesMaxOf(topology);
  const samplesMax = Math.max(0, ...counts);
  const firstOf: number[] = [];
  let floats = 0;
  for (const [peer] of counts.entries()) {
    const { own, hostSums } = sendListOf(topology, peer, rank);
    for (const shardGroup of [...own, ...hostSums]) {
      firstOf[shardGroup.shardGroup] = floats;
      floats += vectorFloats(shardGroup, counts[rank] ?? 0);
    }
  }
  // An aggregator adds up one host sum at a time.
  for (const { parts } of (topology.across[rank] ?? []).flatMap(({ hostSums }) => hostSums)) {
    const needed = [...parts.values()].map((part) => vectorFloats(part, samplesMax));
    floats = Math.max(
      floats,
      needed.reduce((sum, own) => sum + own, 0),
    );
  }
  const all = [...shardGroupsOf.flat(), ...replicatedGroups];
  const widest = all.reduce((most, { columns }) => Math.max(most, columns), 0);
  const isAnyPacked = isForward || isBackward || isPlain.includes(false);
  const own = columnsOf[rank] ?? 0;
  const rows = (isNeeded: boolean, count: number) => {
    return isNeeded || isPlain[rank] === false ? count : 0;
  };
  // Gradients of distinct lists arrive without gaps, and are copied to the places of their bags.
  const isOnAxes = topology.blocksBy[rank]?.some(({ axis }) => axis > 0) === true;
  return {
    held: kernels.tensor([rows(isForward, samplesMax), own]),
    heldGradients: kernels.tensor([rows(isBackward || isOnAxes, topology.input.batchSize), own]),
    vectors: kernels.tensor([isForward ? floats : 0]),
    firstOf,
    scratch: kernels.tensor([isAnyPacked || isOnAxes ? samplesMax * widest : 0]),
    packed: new ArrayBuffer(isForward || isBackward ? 4 * samplesMax * (widest + 1) : 0),
  };
}
