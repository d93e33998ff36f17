// What one device holds in a generation: its replica of the dense network, the rows of its shards,
// its end of the exchange, and the memory of a step. Made once a generation, then only the step
// changes it.

import { BagMemory } from "../embedding/bags.ts";
import type { SparseOptimizerSpec } from "../embedding/options.ts";
import { createSlab, type Slab } from "../embedding/slab.ts";
import type { Exchange } from "../exchange/exchange.ts";
import type { Kernels, Tensor } from "../kernels/kernels.ts";
import { createDenseState, type DenseState } from "../model/dense-optimizer.ts";
import { createDlrm, type Dlrm, type DlrmGradients, gradientsOf } from "../model/dlrm.ts";
import type { DenseOptimizerSpec } from "../model/options.ts";
import { initParameters } from "../model/parameters.ts";
import { type Key, keyOf } from "../random.ts";
import { samplesMaxOf, type Topology, tableOf } from "./topology.ts";

/** What the arithmetic of a step needs to know of the job besides the topology. */
export interface Recipe {
  readonly optimizer: { readonly dense: DenseOptimizerSpec; readonly sparse: SparseOptimizerSpec };
  readonly seed: number;
}

export interface DeviceState {
  readonly rank: number;
  readonly topology: Topology;
  readonly recipe: Recipe;
  readonly key: Key;
  readonly kernels: Kernels;
  readonly exchange: Exchange;
  readonly model: Dlrm;
  readonly denseState: DenseState;
  /** Rows of the shards that are placed here. */
  readonly slab: Slab;
  /** Copies of the data-parallel tables. */
  readonly replicas: Slab;
  readonly gradients: DlrmGradients;
  /** Finished subtrees of replicated tables: for each table, a tensor for each subtree. */
  readonly replicaGradients: readonly {
    readonly dRows: readonly Tensor[];
    readonly counts: readonly Tensor[];
  }[];
  readonly bags: BagMemory;
  readonly replicaBags: BagMemory;
  /** (Bmax, columns of the replicas) */
  readonly replicaPooled: Tensor;
  /** (Bmax, 1) */
  readonly dLogits: Tensor;
}

/** The state as it is before the first step; `restore` puts a checkpoint into it. */
export function createDeviceState(options: {
  readonly rank: number;
  readonly topology: Topology;
  readonly recipe: Recipe;
  readonly kernels: Kernels;
  readonly exchange: Exchange;
}): DeviceState {
  const { rank, topology, recipe, kernels, exchange } = options;
  const { shape, replicated } = topology;
  const { model: spec } = topology.input;
  const key = keyOf(recipe.seed);
  const samplesMax = samplesMaxOf(topology)[rank] ?? 0;
  const model = createDlrm(kernels, spec, samplesMax);
  initParameters(kernels, model.flat, shape.layout, key);
  const slabOf = (tables: readonly number[]) =>
    createSlab({ kernels, specs: spec.tables, tables, optimizer: recipe.optimizer.sparse, key });
  const replicas = slabOf(replicated);
  const flats = exchange.gradients.subtrees;
  return {
    ...options,
    key,
    model,
    denseState: createDenseState(kernels, recipe.optimizer.dense, shape.layout.length),
    slab: slabOf(topology.tablesOf[rank] ?? []),
    replicas,
    gradients: gradientsOf(model, flats),
    replicaGradients: replicated.map((table, i) => {
      const { rows, dim } = tableOf(spec.tables, table);
      const at = topology.replicatedAt[i] ?? { gradient: 0, counts: 0 };
      return {
        dRows: flats.map((flat) => kernels.reshape(flat, [rows, dim], at.gradient)),
        counts: flats.map((flat) => kernels.reshape(flat, [rows], at.counts)),
      };
    }),
    bags: new BagMemory(),
    replicaBags: new BagMemory(),
    replicaPooled: kernels.tensor([samplesMax, replicas.columns]),
    dLogits: kernels.tensor([samplesMax, 1]),
  };
}
