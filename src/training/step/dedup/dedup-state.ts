// A device's memory for tables with `dedup`, whose distinct rows are sent to the devices of the
// samples (dedup-dist.ts).

import { poolingOf, type Slab } from "../../../embedding/rows/slab.ts";
import type { Kernels, Rows, Tensor } from "../../../kernels/contract/kernels.ts";
import type { HeldLookup } from "../../topology/held-shard.ts";
import { type Topology, tableOf } from "../../topology/topology.ts";

/** A device's memory for tables with `dedup`. */
export interface DistinctState {
  /** One slab for each shard on this device, as each shard has bags of its own. */
  readonly slabs: readonly Slab[];
  /**
   * For each shard of the job, a table without rows for each of its lookups: the settings by which
   * received rows are pooled.
   */
  readonly tables: readonly (readonly Rows[])[];
  /**
   * (bmax * C): vectors of the shards in `tables`, one shard after the other; later their
   * gradients.
   */
  readonly vectors: Tensor;
  /** Gradients of the rows of `slabs`. */
  readonly dRows: GrowingTensor;
  /** Rows of one shard, or their gradients, before they are packed or once they are unpacked. */
  readonly plain: GrowingTensor;
  /** Marks of touched rows, which the kernel writes. All rows are touched, so no code reads it. */
  readonly marks: GrowingTensor;
}

/** A tensor that grows on demand, so that steps allocate nothing once their sizes are steady. */
export class GrowingTensor {
  readonly #kernels: Kernels;
  #tensor: Tensor;

  constructor(kernels: Kernels) {
    this.#kernels = kernels;
    this.#tensor = kernels.tensor([0]);
  }

  /** Returns a tensor (length) with unspecified values; valid until the next call. */
  take(length: number): Tensor {
    if ((this.#tensor.shape[0] ?? 0) < length) {
      this.#tensor = this.#kernels.tensor([length + (length >> 1)]);
    }
    return this.#kernels.part(this.#tensor, 0, length);
  }
}

export function createDistinctState(options: {
  readonly kernels: Kernels;
  readonly topology: Topology;
  readonly slabs: readonly Slab[];
  readonly samplesMax: number;
}): DistinctState {
  const { kernels, topology, slabs, samplesMax } = options;
  const shards = topology.distinctBy.flat();
  const columns = shards.reduce((sum, shard) => sum + shard.lookups.length * shard.columns, 0);
  return {
    slabs,
    tables: shards.map(({ table, columns: dim, lookups }) => {
      const { rowBlocks } = tableOf(topology.input.model.tables, table);
      const shape = { rows: 0, dim, rowBlocks: 1, stateWidth: 0 };
      const rows = kernels.rows({ ...shape, pooling: "sum" });
      return lookups.map(({ pooling }) => ({ ...rows, pooling: poolingOf(pooling, rowBlocks) }));
    }),
    vectors: kernels.tensor([samplesMax * columns]),
    dRows: new GrowingTensor(kernels),
    plain: new GrowingTensor(kernels),
    marks: new GrowingTensor(kernels),
  };
}

/** The part of a device that `slabAt` needs. */
interface SlabsDevice {
  readonly rank: number;
  readonly distinct: Pick<DistinctState, "slabs">;
}

/** Slab `at` of this device's shards with distinct rows. */
export function slabAt({ distinct, rank }: SlabsDevice, at: number): Slab {
  const slab = distinct.slabs[at];
  if (slab === undefined) throw new RangeError(`Device ${rank} has no slab of distinct rows ${at}`);
  return slab;
}

/** The part of a device that `distinctVectors` needs. */
export interface DistinctVectorsDevice {
  readonly kernels: Kernels;
  readonly distinct: Pick<DistinctState, "vectors">;
}

/** The vectors (b,·) of all lookups in a shard with `dedup`, or their gradients. */
export function distinctVectors(
  { kernels, distinct }: DistinctVectorsDevice,
  { column, columns }: HeldLookup["ofShard"],
  samples: number,
): Tensor {
  return kernels.reshape(distinct.vectors, [samples, columns], samples * column);
}
