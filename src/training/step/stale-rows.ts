// Counts late reads under bounded staleness: rows that a step read while the previous step's update
// of the row was still pending. Each row counts once a step, on the device that holds it: on the
// device of its first columns where it is split by columns, on device 0 where it is replicated.

import type { Bags, Kernels, Tensor } from "../../kernels/contract/kernels.ts";
import type { HeldShard } from "../topology/held-shard.ts";
import { type Topology, tableOf } from "../topology/topology.ts";

/** A step's read, and whether it came before the previous step was applied. */
export interface StepRead {
  readonly step: number;
  readonly isLate: boolean;
}

export class StaleRows {
  /** For each table of the job, the late reads that this device has counted so far. */
  readonly counts: number[];
  readonly #topology: Topology;
  readonly #rank: number;
  /** For each shard that this device counts: the last step that read each of its rows. */
  readonly #lastSteps: ReadonlyMap<number, Int32Array>;

  constructor(topology: Topology, rank: number) {
    const { heldBy, distinctBy, replicated, input } = topology;
    this.counts = topology.input.model.tables.map(() => 0);
    this.#topology = topology;
    this.#rank = rank;
    const own = [heldBy[rank], distinctBy[rank], rank === 0 ? replicated : []].flatMap(
      (shards) => shards ?? [],
    );
    this.#lastSteps = new Map(
      own
        .filter(({ table, firstColumn }) => {
          return tableOf(input.model.tables, table).staleness > 0 && firstColumn === 0;
        })
        .map(({ shard, rows }) => [shard, new Int32Array(rows).fill(-1)]),
    );
  }

  /** Counts the rows that a step reads in model-parallel shards. */
  takeRows(bags: Bags, lookups: readonly { readonly bags: Bags }[], read: StepRead): void {
    if (this.#lastSteps.size === 0) return;
    const { heldBy, distinctBy } = this.#topology;
    let lookup = 0;
    for (const shard of heldBy[this.#rank] ?? []) {
      this.#take(shard, bags, { first: lookup, count: shard.lookups.length }, read);
      lookup += shard.lookups.length;
    }
    for (const [i, shard] of (distinctBy[this.#rank] ?? []).entries()) {
      const own = lookups[i];
      if (own !== undefined) this.#take(shard, own.bags, { first: 0, count: 1 }, read);
    }
  }

  /** `of`: the range of the shard's lookups in `bags`. */
  #take(
    { shard, table }: HeldShard,
    bags: Bags,
    of: { readonly first: number; readonly count: number },
    { step, isLate }: StepRead,
  ): void {
    const lastSteps = this.#lastSteps.get(shard);
    if (lastSteps === undefined) return;
    const { samples, offsets, ids } = bags;
    const end = offsets[(of.first + of.count) * samples] ?? 0;
    let late = 0;
    for (let k = offsets[of.first * samples] ?? 0; k < end; k++) {
      const row = Number(ids[k]);
      if (lastSteps[row] === step - 1) late++;
      lastSteps[row] = step;
    }
    if (isLate) this.counts[table] = (this.counts[table] ?? 0) + late;
  }

  /**
   * Counts the rows that a step reads in replicated shards, from the summed gradient of that step.
   */
  takeReplicas(kernels: Kernels, gradient: Tensor, { step, isLate }: StepRead): void {
    const { replicated, replicatedAt, input } = this.#topology;
    for (const [i, { shard, table, rows }] of replicated.entries()) {
      const lastSteps = this.#lastSteps.get(shard);
      const at = replicatedAt[i];
      if (lastSteps === undefined || at === undefined) continue;
      const touched = kernels.read(kernels.reshape(gradient, [rows], at.counts));
      // A penalty on the whole table leaves an update pending on every row.
      const isWhole = tableOf(input.model.tables, table).l2Scope === "table";
      let late = 0;
      for (let row = 0; row < rows; row++) {
        if ((touched[row] ?? 0) === 0) continue;
        if (isWhole || lastSteps[row] === step - 1) late++;
        lastSteps[row] = step;
      }
      if (isLate) this.counts[table] = (this.counts[table] ?? 0) + late;
    }
  }
}
