// The state of one device in a generation: its replica of the dense network, the rows of its
// shards, its end of the exchange, and the memory of a step. It is created once per generation;
// afterwards only the step changes it. Each stage of the step declares the part that it needs; this
// file joins the parts.

import { BagMemory } from "../../embedding/lookup/bag-frames.ts";
import type { BackingStore } from "../../embedding/rows/backing-store.ts";
import type { RowKeeper } from "../../embedding/rows/row-keeper.ts";
import { createSlab, type Slab, type SlabShard } from "../../embedding/rows/slab.ts";
import type { SparseOptimizerSpec } from "../../embedding/tables/options.ts";
import { rowDecayOf } from "../../embedding/tables/row-decay.ts";
import type { Exchange } from "../../exchange/exchange.ts";
import type { Kernels, LossTerm, Tensor } from "../../kernels/contract/kernels.ts";
import { createDenseState, type DenseState } from "../../model/dense-optimizer.ts";
import { createNetwork } from "../../model/graph/network.ts";
import { initParameters } from "../../model/graph/parameters.ts";
import { createReplays } from "../../model/graph/replay.ts";
import { lossTermsOf } from "../../model/loss.ts";
import type { LossSpec } from "../../model/loss-options.ts";
import type { DenseOptimizerSpec } from "../../model/options.ts";
import { keyOf } from "../../ports/random.ts";
import { noTrace, type StepTrace } from "../meters/step-trace.ts";
import { cachesOf } from "../topology/device-cache-sizes.ts";
import { subtreesIn } from "../topology/gradient-trees.ts";
import { prefetchOf, samplesMaxOf, type Topology } from "../topology/topology.ts";
import { type BagLengthsDevice, createBagLengths } from "./bag-lengths.ts";
import type { DedupDistDevice } from "./dedup/dedup-dist.ts";
import { createDistinctState, type DistinctState } from "./dedup/dedup-state.ts";
import { type DeferredDevice, DeferredMemory } from "./deferred.ts";
import { createShardIds, type DynamicIdsDevice } from "./dynamic-ids.ts";
import { type Frames, framesOver } from "./frames.ts";
import type { InputDistDevice } from "./input-dist.ts";
import type { NonFiniteDevice } from "./non-finite.ts";
import type { OutputDistDevice } from "./output-dist.ts";
import type { PrefetchDevice } from "./prefetch.ts";
import type { ReplicasDevice } from "./replicas.ts";
import { createRounded } from "./rounded-memory.ts";
import type { RowSumsDevice } from "./row-sums.ts";
import { StaleRows } from "./stale-rows.ts";
import { createLane, type PlanningDevice } from "./step-plan.ts";

/** The settings of the job, besides the topology, that the arithmetic of a step depends on. */
export interface Recipe {
  readonly optimizer: { readonly dense: DenseOptimizerSpec; readonly sparse: SparseOptimizerSpec };
  readonly seed: number;
  /** @default the usual one */
  readonly loss?: LossSpec;
}

/** A device with the parts that all stages of a step need. */
export interface DeviceState
  extends PlanningDevice,
    InputDistDevice,
    DynamicIdsDevice,
    PrefetchDevice,
    BagLengthsDevice,
    DedupDistDevice,
    OutputDistDevice,
    DeferredDevice,
    ReplicasDevice,
    RowSumsDevice,
    NonFiniteDevice {
  readonly recipe: Recipe;
  readonly exchange: Exchange;
  readonly frames: Frames;
  readonly kernels: Kernels;
  readonly denseState: DenseState;
  /** Factor on the learning rates after reductions on plateaus; each window sets it. */
  readonly plateau: { share: number };
  /** Number of steps of the model in memory, trained or restored; evaluations score this model. */
  readonly trained: { steps: number };
  /** The tiers below device memory; undefined where this device has no cached shard. */
  readonly backing: BackingStore | undefined;
  /** Rows of the shards that this device holds and pools. */
  readonly slab: Slab;
  /** Tables with `dedup`: their rows on this device, and memory for received rows. */
  readonly distinct: DistinctState;
  /** Rows of the data-parallel shards, which every device has. */
  readonly replicas: Slab;
  readonly staleRows: StaleRows;
  /** The terms of the loss, functions of the logits. */
  readonly terms: readonly LossTerm[];
  readonly trace: StepTrace;
  /**
   * Ids that this device has looked up, by shard of the job (shard-heat.ts); undefined: not
   * counted.
   */
  readonly heat?: Float64Array | undefined;
}

/** Creates the state before the first step. A checkpoint is restored into it (`restorePart`). */
export function createDeviceState(options: {
  readonly rank: number;
  readonly topology: Topology;
  readonly recipe: Recipe;
  readonly kernels: Kernels;
  readonly exchange: Exchange;
  /** The tiers below device memory; required if this device has a cached shard. */
  readonly backing?: BackingStore | undefined;
  /** Whether checkpoints may hold only changed rows. @default false */
  readonly hasIncrements?: boolean;
  /** Memory for rows that outlives the device's thread. @default the kernels' own */
  readonly keeper?: RowKeeper | undefined;
  /** @default nothing is traced */
  readonly trace?: StepTrace | undefined;
  /** As of `DeviceState`. */
  readonly heat?: Float64Array | undefined;
  /** Rows that lie elsewhere (src/asynchronous). @default the device's own */
  readonly rows?: Slab | undefined;
  /** Dense weights and optimizer state that several devices change. @default the device's own */
  readonly dense?: { readonly flat: Tensor; readonly state: DenseState } | undefined;
}): DeviceState {
  const { rank, topology, recipe, kernels, exchange, backing, hasIncrements, keeper } = options;
  const { graph, replicated, heldBy } = topology;
  const { model: spec } = topology.input;
  const key = keyOf(recipe.seed);
  const samplesMax = samplesMaxOf(topology)[rank] ?? 0;
  // Finished subtrees of the dense gradient, in the exchange's memory.
  const flats = exchange.gradients.subtrees;
  const whole = flats.slice(0, subtreesIn(topology, rank).length);
  const { precision } = spec;
  const { flat } = options.dense ?? {};
  const own = { kernels, graph, precision, samplesMax, flats };
  const network = createNetwork(flat === undefined ? own : { ...own, flat });
  if (flat === undefined) initParameters(kernels, network.flat, graph.layout, key);
  const replays = createReplays(kernels);
  const { sparse: optimizer } = recipe.optimizer;
  const tiers = backing && { backing, shapeOf: cachesOf(topology, rank, optimizer) };
  const held = { kernels, specs: spec.tables, optimizer, key, tiers, hasIncrements, keeper };
  const slabOf = (shards: readonly SlabShard[]) => createSlab({ ...held, shards });
  const slab = options.rows ?? slabOf(heldBy[rank] ?? []);
  const replicas = slabOf(replicated);
  // Distinct rows are looked up one by one, whichever lookups request them.
  const slabs = (topology.distinctBy[rank] ?? []).map((shard) => {
    return slabOf([{ ...shard, lookups: [{ pooling: "sum" }] }]);
  });
  return {
    ...options,
    frames: framesOver(exchange, topology.isLong),
    backing,
    trace: options.trace ?? noTrace,
    isAcross: new Set(topology.hostOf).size > 1,
    repeats: { ...replays, vectors: replays.runner(), gradients: replays.runner() },
    key,
    network,
    plateau: { share: 1 },
    trained: { steps: 0 },
    decays: spec.tables.map((table) => rowDecayOf(recipe.optimizer.sparse, table)),
    denseState:
      options.dense?.state ??
      createDenseState(kernels, recipe.optimizer.dense, graph.layout.length),
    slab,
    ids: createShardIds(topology, rank, key),
    bagLengths: createBagLengths(topology, samplesMax),
    deferred: new DeferredMemory(kernels),
    distinct: createDistinctState({ kernels, topology, slabs, samplesMax }),
    replicas,
    replicaGradients: replicated.map(({ rows, columns }, i) => {
      const at = topology.replicatedAt[i] ?? { gradient: 0, counts: 0 };
      return {
        dRows: whole.map((flat) => kernels.reshape(flat, [rows, columns], at.gradient)),
        counts: whole.map((flat) => kernels.reshape(flat, [rows], at.counts)),
      };
    }),
    lanes: Array.from({ length: 2 + prefetchOf(topology) }, createLane),
    replicaBags: new BagMemory(),
    replicaVectors: kernels.tensor([samplesMax, replicas.columns]),
    rounded: createRounded(kernels, topology, rank),
    staleRows: new StaleRows(topology, rank),
    terms: lossTermsOf(graph, recipe.loss),
  };
}
