// The generation spec: the input of the threads of one generation. The training coordinator makes
// it (`generationSpecOf`), the message host.assemble carries it to the hosts, and every thread is
// started with it. The memory layout follows from it alone (generation-layout.ts).

import type { Dealing } from "../../src/exchange/batch-ring.ts";
import type { ShelfShape } from "../../src/exchange/splits/split-shelves.ts";
import type { JobSpec } from "../../src/job/job.ts";
import type { LinkChoice } from "../../src/planner/fleet.ts";
import type { ShardPin } from "../../src/planner/pins.ts";
import { deadlinesOf } from "../../src/ports/deadlines.ts";
import type { RunPlan } from "../../src/training/planning/plan-report.ts";
import type { Manifest } from "../../storage/checkpoints/store/checkpoint-store.ts";
import type { Network } from "../runtime/mailbox.ts";
import type { DataPlan, GenerationSpecRecord } from "./generation-schema.ts";

export type { DataPlan, DatasetPlan, Warning } from "./generation-schema.ts";

/** The spec of a generation. Plain data, sent over the wire and to threads. */
export interface GenerationSpec extends Omit<GenerationSpecRecord, "manifest"> {
  readonly manifest?: Manifest | undefined;
}

/** The fields of a generation in a thread's task; the memory has the whole spec. */
export type SpecHead = Pick<GenerationSpec, "run" | "generation" | "devices">;

export function headOf({ run, generation, devices }: GenerationSpec): SpecHead {
  return { run, generation, devices };
}

/**
 * Makes the spec of a generation that continues from `step`: from the checkpoint `latest` of that
 * cut, or from initial weights.
 */
export function generationSpecOf(from: {
  readonly scope: Pick<GenerationSpec, "run" | "generation">;
  readonly job: JobSpec;
  readonly hosts: readonly GenerationSpec["hosts"][number][];
  readonly plan: DataPlan | undefined;
  readonly placement?: RunPlan | undefined;
  readonly pins?: readonly ShardPin[] | undefined;
  readonly readerLimit?: number | undefined;
  readonly step: number;
  readonly latest: Manifest | undefined;
  readonly sliceCounts: readonly number[] | undefined;
  readonly links?: LinkChoice | undefined;
  readonly network: Pick<Network, "tracedEvery">;
}): GenerationSpec {
  const { scope, job, hosts, plan, placement, step, latest, sliceCounts, pins = [] } = from;
  const { readerLimit = 0, links } = from;
  if (plan === undefined) throw new RangeError("The data is not prepared");
  const devices = hosts.reduce((sum, host) => sum + host.devices, 0);
  const at = { data: plan, fromStep: step, manifest: latest };
  const slices = sliceCounts && { sliceCounts: [...sliceCounts] };
  const { tracedEvery } = from.network;
  const traced = tracedEvery === undefined ? {} : { tracedEvery };
  const found = placement?.plan === undefined ? {} : { placement: placement.plan };
  const placed = pins.length === 0 ? found : { ...found, pins };
  const paced = readerLimit === 0 ? {} : { readerLimit };
  const linked = links?.way === "direct" ? { links: links.way } : {};
  const all = { ...slices, ...at, ...placed, ...paced, ...linked, ...traced };
  return { ...scope, job, devices, hosts: [...hosts], ...all };
}

/** A host's part of a generation: the devices of ranks first .. first+count-1. */
export interface HostPlace {
  readonly host: number;
  /** Its index among the hosts of the generation, from 0. */
  readonly position: number;
  readonly first: number;
  readonly count: number;
}

/** The hosts of a generation, in the order of their devices' ranks. */
export function hostPlaces({ hosts }: Pick<GenerationSpec, "hosts">): HostPlace[] {
  let first = 0;
  return hosts.map(({ host, devices }, position) => {
    const place = { host, position, first, count: devices };
    first += devices;
    return place;
  });
}

/** The place of a host in a generation. @throws RangeError if it has none */
export function placeOfHost(spec: Pick<GenerationSpec, "hosts">, host: number): HostPlace {
  const place = hostPlaces(spec).find((one) => one.host === host);
  if (place === undefined) throw new RangeError(`The generation has no host ${host}`);
  return place;
}

export function hostPlaceOf(spec: Pick<GenerationSpec, "hosts">, device: number): HostPlace {
  const place = hostPlaces(spec).findLast(({ first }) => first <= device);
  if (place === undefined) throw new RangeError(`There is no device ${device}`);
  return place;
}

/**
 * Most preprocessing workers of one host: worker i of the host at position p has the index p *
 * poolMax + i.
 */
export const poolMax = 64;

/** Shape of the shared memory between the workers of a host and its readers. */
export function shelvesOf({ job }: Pick<GenerationSpec, "job">): ShelfShape {
  const { workersMax = 0, threads = false } = job.preprocessing ?? {};
  return { readers: job.readers, shelves: threads ? Math.min(poolMax, workersMax) : 0 };
}

/** How the readers of a host divide its batches: by batch or, in the split order, by device. */
export function dealingOf({ data }: Pick<GenerationSpec, "data">): Dealing {
  const { splitSamples, splits } = data.contents;
  return splitSamples === undefined && splits === undefined ? "batches" : "devices";
}

/** Whether hosts keep replicas of each other's checkpoint parts in memory. */
export function hasBuddies({
  job,
  hosts,
}: {
  readonly job: JobSpec;
  readonly hosts: readonly unknown[];
}): boolean {
  return hosts.length > 1 && job.checkpoint.buddyBytes !== 0 && job.mode !== "async";
}

/** Share of a host's memory for replicas. */
const replicaShare = 1 / 4;

/** Bytes of a host's memory for replicas of checkpoint parts. */
export function replicaBytesOf({ checkpoint }: JobSpec, memoryBytes: number): number {
  return checkpoint.buddyBytes ?? Math.floor(replicaShare * memoryBytes);
}

/**
 * Whether the job allows partial recovery: a checkpoint made from the surviving state of a failed
 * generation (partial-recovery.ts).
 */
export function mayRecoverPartly({
  job,
  hosts,
}: {
  readonly job: JobSpec;
  readonly hosts: readonly { readonly devices: number }[];
}): boolean {
  const devices = hosts.reduce((sum, host) => sum + host.devices, 0);
  return job.checkpoint.partial !== undefined && devices > 1;
}

/**
 * How long a thread waits for room on a full disk. Other hosts do not know of the wait and keep
 * waiting for the step, so with several hosts the wait ends within the step deadline.
 */
export function roomWaitMs({
  job,
  hosts,
}: {
  readonly job: GenerationSpec["job"];
  readonly hosts: readonly unknown[];
}): number {
  return hosts.length === 1 ? job.tiers.diskFullWaitMs : deadlinesOf(job).disk;
}
