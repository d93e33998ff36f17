// What one device holds in a generation: its replica of the dense network, the rows of its shards,
// its end of the exchange, and the memory of a step. Made once a generation, then only the step
// changes it.

import type { ShardIds } from "../../embedding/dynamic-ids/shard-ids.ts";
import { BagMemory } from "../../embedding/lookup/bag-frames.ts";
import { DistinctMemory, LookupMemory } from "../../embedding/lookup/dedup-rows.ts";
import { LocalRows } from "../../embedding/lookup/ids-to-rows.ts";
import type { RowsBelow } from "../../embedding/rows/backing-store.ts";
import { createSlab, type Slab } from "../../embedding/rows/slab.ts";
import type { SparseOptimizerSpec } from "../../embedding/tables/options.ts";
import type { Exchange } from "../../exchange/exchange.ts";
import type { Kernels, Tensor } from "../../kernels/contract/kernels.ts";
import { createDenseState, type DenseState } from "../../model/dense-optimizer.ts";
import { createDlrm, type Dlrm, type DlrmGradients, gradientsOf } from "../../model/dlrm.ts";
import type { DenseOptimizerSpec } from "../../model/options.ts";
import { initParameters } from "../../model/parameters.ts";
import { type Key, keyOf } from "../../ports/random.ts";
import { noTrace, type StepTrace } from "../meters/step-trace.ts";
import { cachesOf } from "../topology/device-cache-sizes.ts";
import type { HeldShard } from "../topology/held-shard.ts";
import { parcelOf, vectorFloats } from "../topology/shard-groups.ts";
import { prefetchOf, samplesMaxOf, type Topology } from "../topology/topology.ts";
import { createBagLengths } from "./bag-lengths.ts";
import { createDistinctState, type DistinctState } from "./dedup-dist.ts";
import { createShardIds } from "./dynamic-ids.ts";
import { StaleRows } from "./stale-rows.ts";

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
  /** What lies below device memory; undefined where no shard of this device does. */
  readonly below: RowsBelow | undefined;
  /** Rows of the shards that are placed here and pooled here. */
  readonly slab: Slab;
  /** For each shard of the slab, which dynamic id has which row; undefined where ids are rows. */
  readonly ids: readonly (ShardIds | undefined)[];
  /** By table, (bmax): what is left of this device's bags of dynamic ids (bag-lengths.ts). */
  readonly bagLengths: ReadonlyMap<number, Int32Array>;
  /** Tables with `dedup`: those of their rows that are placed here, and what comes of others. */
  readonly distinct: DistinctState;
  /** Copies of the data-parallel shards. */
  readonly replicas: Slab;
  readonly gradients: DlrmGradients;
  /** Finished subtrees of replicated shards: for each shard, a tensor for each subtree. */
  readonly replicaGradients: readonly {
    readonly dRows: readonly Tensor[];
    readonly counts: readonly Tensor[];
  }[];
  /**
   * Memory for the bags of steps in flight: those of one are on their way while another computes,
   * and between them lie those whose rows come up.
   */
  readonly lanes: readonly Lane[];
  readonly replicaBags: BagMemory;
  /** (bmax, columns of the replicas): of each read (fresh-and-stale.ts) one after the other. */
  readonly replicaVectors: Tensor;
  readonly rounded: RoundedMemory;
  readonly staleRows: StaleRows;
  /** (Bmax, 1) */
  readonly dLogits: Tensor;
  readonly trace: StepTrace;
}

/** Where the bags of a step lie, on the side of the samples and on that of the rows. */
export interface Lane {
  readonly localRows: LocalRows;
  readonly bags: BagMemory;
  readonly distinct: DistinctMemory;
  readonly lookups: LookupMemory;
}

/** Room for vectors that do not travel as they are pooled; empty where all do. */
export interface RoundedMemory {
  /** (bmax of all devices, columns of the slab) */
  readonly held: Tensor;
  /** (B, columns of the slab) */
  readonly heldGradients: Tensor;
  /** Flat: the vectors that come, bundle after bundle; for a gateway, before, those of a relay. */
  readonly vectors: Tensor;
  /** First float of each bundle in `vectors`. */
  readonly firstOf: readonly number[];
  /** Flat: the vectors of one bundle, of one device's samples; and the same, packed. */
  readonly scratch: Tensor;
  readonly packed: ArrayBuffer;
}

/** The state as it is before the first step; `restore` puts a checkpoint into it. */
export function createDeviceState(options: {
  readonly rank: number;
  readonly topology: Topology;
  readonly recipe: Recipe;
  readonly kernels: Kernels;
  readonly exchange: Exchange;
  /** What lies below device memory; there where a shard of this device does. */
  readonly below?: RowsBelow | undefined;
  /** Whether checkpoints may hold only what changed. @default false */
  readonly hasDifferences?: boolean;
  /** @default nothing is traced */
  readonly trace?: StepTrace | undefined;
}): DeviceState {
  const { rank, topology, recipe, kernels, exchange, below, hasDifferences } = options;
  const { shape, replicated, heldBy } = topology;
  const { model: spec } = topology.input;
  const key = keyOf(recipe.seed);
  const samplesMax = samplesMaxOf(topology)[rank] ?? 0;
  const model = createDlrm(kernels, spec, samplesMax);
  initParameters(kernels, model.flat, shape.layout, key);
  const { sparse: optimizer } = recipe.optimizer;
  const tiers = below && { below, shapeOf: cachesOf(topology, rank, optimizer) };
  const slabOf = (shards: readonly HeldShard[]) =>
    createSlab({ kernels, specs: spec.tables, shards, optimizer, key, tiers, hasDifferences });
  const slab = slabOf(heldBy[rank] ?? []);
  const replicas = slabOf(replicated);
  const slabs = (topology.distinctBy[rank] ?? []).map((shard) => slabOf([shard]));
  const flats = exchange.gradients.subtrees;
  return {
    ...options,
    below,
    trace: options.trace ?? noTrace,
    key,
    model,
    denseState: createDenseState(kernels, recipe.optimizer.dense, shape.layout.length),
    slab,
    ids: createShardIds(topology, rank, key),
    bagLengths: createBagLengths(topology, samplesMax),
    distinct: createDistinctState({ kernels, topology, slabs, samplesMax }),
    replicas,
    gradients: gradientsOf(model, flats),
    replicaGradients: replicated.map(({ rows, columns }, i) => {
      const at = topology.replicatedAt[i] ?? { gradient: 0, counts: 0 };
      return {
        dRows: flats.map((flat) => kernels.reshape(flat, [rows, columns], at.gradient)),
        counts: flats.map((flat) => kernels.reshape(flat, [rows], at.counts)),
      };
    }),
    lanes: Array.from({ length: 2 + prefetchOf(topology) }, createLane),
    replicaBags: new BagMemory(),
    replicaVectors: kernels.tensor([samplesMax, replicas.columns]),
    rounded: createRounded(kernels, topology, rank),
    staleRows: new StaleRows(topology, rank),
    dLogits: kernels.tensor([samplesMax, 1]),
  };
}

function createLane(): Lane {
  return {
    localRows: new LocalRows(),
    bags: new BagMemory(),
    distinct: new DistinctMemory(),
    lookups: new LookupMemory(),
  };
}

function createRounded(kernels: Kernels, topology: Topology, rank: number): RoundedMemory {
  const { exchange, bundlesOf, replicatedBundles, isPlain, columnsOf } = topology;
  const isForward = exchange.forward !== "float32";
  const isBackward = exchange.backward !== "float32";
  const counts = samplesMaxOf(topology);
  const samplesMax = Math.max(0, ...counts);
  const firstOf: number[] = [];
  let floats = 0;
  for (const [peer] of counts.entries()) {
    const { own, relays } = parcelOf(topology, peer, rank);
    for (const bundle of [...own, ...relays]) {
      firstOf[bundle.bundle] = floats;
      floats += vectorFloats(bundle, counts[rank] ?? 0);
    }
  }
  // As a gateway it adds up one relay at a time.
  for (const { parts } of (topology.parcels[rank] ?? []).flatMap(({ relays }) => relays)) {
    const needed = [...parts.values()].map((part) => vectorFloats(part, samplesMax));
    floats = Math.max(
      floats,
      needed.reduce((sum, own) => sum + own, 0),
    );
  }
  const all = [...bundlesOf.flat(), ...replicatedBundles];
  const widest = all.reduce((most, { columns }) => Math.max(most, columns), 0);
  const isAnyPacked = isForward || isBackward || isPlain.includes(false);
  const own = columnsOf[rank] ?? 0;
  const rows = (isNeeded: boolean, count: number) => {
    return isNeeded || isPlain[rank] === false ? count : 0;
  };
  return {
    held: kernels.tensor([rows(isForward, samplesMax), own]),
    heldGradients: kernels.tensor([rows(isBackward, topology.input.batchSize), own]),
    vectors: kernels.tensor([isForward ? floats : 0]),
    firstOf,
    scratch: kernels.tensor([isAnyPacked ? samplesMax * widest : 0]),
    packed: new ArrayBuffer(isForward || isBackward ? 4 * samplesMax * (widest + 1) : 0),
  };
}
