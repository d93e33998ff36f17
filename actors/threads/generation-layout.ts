// The generation layout: the participants of a generation, and the cells and rings of shared memory
// that belong to each. It follows from the spec alone, so that all hosts and threads agree on it
// without a message. Computing it places every table, so a thread does it once, when its generation
// begins, and passes the layout on.

import { targetsOf } from "../../src/data/targets.ts";
import { weightedOf } from "../../src/data/text/match-features.ts";
import { type RingShape, ringLayoutOf } from "../../src/exchange/batch-ring.ts";
import { pipeCells } from "../../src/exchange/byte-pipe.ts";
import type { ExchangeShape } from "../../src/exchange/exchange.ts";
import { layoutOf } from "../../src/exchange/layout.ts";
import { stepBefore } from "../../src/job/warm-start.ts";
import { shapesOf } from "../../src/model/features.ts";
import { unpackPlan } from "../../src/planner/packed-plan.ts";
import { deviceCount, type Plan, planOfFile } from "../../src/planner/shards.ts";
import { atOnce, type Steps } from "../../src/ports/turns.ts";
import { partsOfShards } from "../../src/training/checkpoint/parts.ts";
import { type Schedule, scheduleOf } from "../../src/training/loop/schedule.ts";
import { exchangeShapeOf } from "../../src/training/topology/exchange-shape.ts";
import { shardsOn } from "../../src/training/topology/private-memory.ts";
import { placingTables, ringShapeOf, type Topology } from "../../src/training/topology/topology.ts";
import { filesOfParts, type NamedFile } from "../../storage/checkpoints/replicas/replica-cache.ts";
import { replicaCells } from "../../storage/checkpoints/replicas/restore-source.ts";
import type { Manifest } from "../../storage/checkpoints/store/checkpoint-store.ts";
import { tierRingCells } from "../../storage/tiers/ring.ts";
import type { TierRingShape } from "../../storage/tiers/ring-slots.ts";
import { tierRingOf } from "../../storage/tiers/shape.ts";
import { type GenerationSpec, type HostPlace, hasBuddies, hostPlaces } from "./generation-spec.ts";

/**
 * Numbers of a generation's participants and of the cells that belong to each: plain data, which
 * the host passes to its threads, so that a thread without rows need not place every table.
 */
export interface ParticipantPlaces {
  /**
   * Number of participants on a host: the devices of all hosts, the readers of this host, its
   * bridge if there are other hosts, the tiers if any device has one, and a writer per device.
   */
  readonly participants: number;
  readonly bridge: number;
  readonly exchangeCells: number;
  readonly cells: number;
  /**
   * First cell of the replicas received from other hosts
   * (storage/checkpoints/replicas/restore-source.ts).
   */
  readonly replicaCellBase: number;
  readonly firstTier: number;
  readonly firstTierCell: number;
  readonly firstWriter: number;
  readonly firstWriterCell: number;
}

/** The participants of a generation, and the part of its memory that belongs to each. */
export interface GenerationLayout extends ParticipantPlaces, Shapes {
  readonly places: ParticipantPlaces;
  readonly schedule: Schedule;
  readonly readers: readonly number[];
  tierOf(rank: number): number;
  tierCellBase(rank: number): number;
  writerOf(rank: number): number;
  writerCellBase(rank: number): number;
}

/** Shapes that depend on the placement of every table. */
interface Shapes {
  readonly topology: Topology;
  readonly ringShape: RingShape;
  readonly exchangeShape: ExchangeShape;
  /** Shapes by rank; undefined for a device with all its rows in its own memory. */
  readonly tierRings: readonly (TierRingShape | undefined)[];
}

/**
 * Computes the layout of a generation on the host at `position`; the topology is the same on all
 * hosts. It places every table, so call it once and pass the layout on; with known `places`, every
 * table is placed only when the topology is first asked for.
 */
export function layoutOfGeneration(
  spec: GenerationSpec,
  position = 0,
  known?: ParticipantPlaces,
): GenerationLayout {
  if (known === undefined) return atOnce(layingOut(spec, position));
  return layoutOver(spec, known, undefined);
}

/** Computes the layout of a generation as `layoutOfGeneration`, in steps. */
export function* layingOut(spec: GenerationSpec, position = 0): Steps<GenerationLayout> {
  const shapes = yield* shapesOfGeneration(spec);
  yield;
  return layoutOver(spec, placesOf(spec, shapes, position), shapes);
}

/** `known`: the shapes; undefined: they are computed when they are first asked for. */
function layoutOver(
  spec: GenerationSpec,
  places: ParticipantPlaces,
  known: Shapes | undefined,
): GenerationLayout {
  const { job, devices } = spec;
  let computed = known;
  const shapes = (): Shapes => {
    computed ??= atOnce(shapesOfGeneration(spec));
    return computed;
  };
  const { firstTier, firstTierCell, firstWriter, firstWriterCell } = places;
  return {
    ...places,
    places,
    schedule: scheduleOfGeneration(spec),
    readers: Array.from({ length: job.readers }, (_, reader) => devices + reader),
    get topology() {
      return shapes().topology;
    },
    get ringShape() {
      return shapes().ringShape;
    },
    get exchangeShape() {
      return shapes().exchangeShape;
    },
    get tierRings() {
      return shapes().tierRings;
    },
    tierOf: (rank) => firstTier + rank,
    tierCellBase: (rank) => firstTierCell + rank * tierRingCells,
    writerOf: (rank) => firstWriter + rank,
    writerCellBase: (rank) => firstWriterCell + rank * pipeCells,
  };
}

/** The layout of a generation, computed when it is first asked for. */
export function layoutOnDemand(spec: GenerationSpec): () => GenerationLayout {
  let layout: GenerationLayout | undefined;
  return () => {
    layout ??= layoutOfGeneration(spec);
    return layout;
  };
}

function* shapesOfGeneration(spec: GenerationSpec): Steps<Shapes> {
  const topology = yield* topologyOfGeneration(spec);
  yield;
  return {
    topology,
    exchangeShape: exchangeShapeOf(topology),
    ringShape: { ...ringShapeOf(topology), isTested: spec.data.test !== undefined },
    tierRings: topology.sliceRuns.map((_, rank) =>
      tierRingOf(topology, rank, spec.job.optimizer.sparse),
    ),
  };
}

function placesOf(
  spec: GenerationSpec,
  { exchangeShape, ringShape, tierRings }: Shapes,
  position: number,
): ParticipantPlaces {
  const { job, devices, hosts } = spec;
  const exchangeCells = layoutOf(exchangeShape, position).cells;
  const isTiered = tierRings.some((ring) => ring !== undefined);
  const bridge = devices + job.readers;
  const firstTier = bridge + (hosts.length > 1 ? 1 : 0);
  const firstWriter = firstTier + (isTiered ? devices : 0);
  const firstTierCell = exchangeCells + ringLayoutOf(ringShape).cells;
  const firstWriterCell = firstTierCell + (isTiered ? devices * tierRingCells : 0);
  const replicaCellBase = firstWriterCell + devices * pipeCells;
  return {
    participants: firstWriter + devices,
    bridge,
    exchangeCells,
    cells: replicaCellBase + replicaCells(filesMax(spec)),
    replicaCellBase,
    firstTier,
    firstTierCell,
    firstWriter,
    firstWriterCell,
  };
}

function* topologyOfGeneration(spec: GenerationSpec): Steps<Topology> {
  const { job, data, devices, sliceCounts, pins } = spec;
  const { model, slices, exchange, tiers, pipeline } = job;
  const { batchSize } = job.data;
  const weighted = weightedOf(job.data, shapesOf(model));
  const targets = targetsOf(job.data);
  const { idsMax, idsMean } = data;
  const plan = planFor(spec);
  const placing = { plan, pins, sliceCounts, tiers, ahead: pipeline.ahead };
  const { ikjt } = data.contents;
  const batch = { batchSize, slices, idsMax, idsMean, weighted, targets, ikjt };
  const input = { model, ...batch, exchange, ...placing };
  const hostOf = hostPlaces(spec).flatMap(({ position, count }) =>
    new Array<number>(count).fill(position),
  );
  yield;
  return yield* placingTables(input, devices, hostOf);
}

/**
 * The plan found for the generation; else the job's plan, if it is for the same number of devices.
 */
function planFor({ job, devices, placement }: GenerationSpec): Plan | undefined {
  if (placement !== undefined) return unpackPlan(placement, job.model.tables);
  if (job.plan === undefined) return undefined;
  const plan = planOfFile(job.plan);
  return deviceCount(plan.devices) === devices ? plan : undefined;
}

export function scheduleOfGeneration({ job, data }: GenerationSpec): Schedule {
  const { batchSize, passes } = job.data;
  const { samples } = data.training;
  return scheduleOf({ samples, batchSize, passes, begin: stepBefore(job) });
}

/** Most files that devices may await from other hosts. */
function filesMax(spec: GenerationSpec): number {
  if (!hasBuddies(spec)) return 0;
  const parts = spec.manifest?.parts ?? [];
  return parts.reduce((sum, { base }) => sum + 1 + base.length, 0);
}

/**
 * The files that the devices of a host restore from, in the order of reading. `kept`: for each
 * device of the host, the shards whose rows it has; left out: none.
 */
export function filesOfHost(
  { topology }: Pick<GenerationLayout, "topology">,
  { first, count }: HostPlace,
  manifest: Manifest,
  kept: readonly ReadonlySet<number>[] = [],
): NamedFile[] {
  const names = manifest.parts.map(({ name }) => name);
  const ranks = Array.from({ length: count }, (_, i) => first + i);
  const shards = ranks.flatMap((rank, i) =>
    shardsOn(topology, rank).filter(({ shard }) => kept[i]?.has(shard) !== true),
  );
  const runs = topology.sliceRuns.slice(first, first + count);
  return filesOfParts(manifest, partsOfShards(topology, { shards, runs }, names));
}
