// A scenario, drawn from one seed: the shape of a cluster, the speed of its parts, and its faults.
// Plain data, drawn before the run, so that a scenario can be printed, shrunk and replayed.

import { purposes, RandomStream } from "../../src/ports/random.ts";
import type { ClusterShape } from "./cluster.ts";
import { jobsDrawn, wideJobs } from "./jobs.ts";

/** Time since the start; `forMs`: duration of a fault that does not end by itself. */
interface Moment {
  readonly atMs: number;
}

interface Lasting extends Moment {
  readonly forMs: number;
}

/** A simulated fault. `pick` selects among the targets that exist at the moment. */
export type SimulatedFault =
  | (Moment & { readonly kind: "thread.kill"; readonly pick: number })
  | (Moment & { readonly kind: "thread.memory"; readonly pick: number })
  | (Moment & { readonly kind: "thread.throw"; readonly pick: number })
  /** The thread exits at its `stores`-th store from then on, in the middle of its work. */
  | (Moment & { readonly kind: "thread.store"; readonly pick: number; readonly stores: number })
  | (Lasting & { readonly kind: "thread.pause"; readonly pick: number })
  | (Lasting & { readonly kind: "thread.slow"; readonly pick: number; readonly factor: number })
  | (Moment & { readonly kind: "actor.throw"; readonly role: ThrowingRole; readonly index: number })
  | (Moment & { readonly kind: "process.kill"; readonly pick: number })
  | (Lasting & { readonly kind: "process.pause"; readonly pick: number })
  /** The process is stopped and disconnected, and replaced; when it resumes, it is a zombie. */
  | (Lasting & { readonly kind: "process.zombie"; readonly pick: number })
  /** A user requests another number of devices. */
  | (Moment & { readonly kind: "run.scale"; readonly devices: number })
  /** A user limits the readers to `times` the lowest limit that the job allows; 0: no limit. */
  | (Moment & { readonly kind: "run.rate"; readonly times: number })
  | (Moment & { readonly kind: "run.drain"; readonly reader: number })
  /** A user moves a shard to a device; or pins it to its device, or unpins it (`isThawed`). */
  | (Moment & { readonly kind: "run.move"; readonly shard: number; readonly device: number })
  | (Moment & { readonly kind: "run.freeze"; readonly shard: number; readonly isThawed: boolean })
  | (Lasting & { readonly kind: "broker.cut"; readonly pick: number })
  | (Lasting & { readonly kind: "broker.restart" })
  | (Lasting & { readonly kind: "partition"; readonly pick: number })
  | (Lasting & {
      readonly kind: "frames";
      readonly what: "drop" | "duplicate" | "reorder" | "corrupt";
      readonly subjects: string;
      readonly probability: number;
    })
  | (Lasting & { readonly kind: "frames.delay"; readonly delayMs: number })
  /** The broker and all processes go on. `link.cut`: one connection between two hosts. */
  | (Moment & { readonly kind: "link.cut"; readonly pick: number })
  | (Lasting & {
      readonly kind: "links";
      readonly what: "cut" | "halfOpen" | "flip" | "refuse";
      readonly probability: number;
    })
  | (Lasting & { readonly kind: "links.delay"; readonly delayMs: number })
  | (Lasting & { readonly kind: "disk.full" })
  /** One bit of a file is flipped. */
  | (Moment & { readonly kind: "disk.flip"; readonly pick: number; readonly bit: number })
  | (Lasting & { readonly kind: "disk.error"; readonly probability: number })
  /** Each disk operation takes `operationMs`. */
  | (Lasting & { readonly kind: "disk.slow"; readonly operationMs: number })
  /** Each request to the bucket fails with this probability, in one of the ways of a real store. */
  | (Lasting & { readonly kind: "store.error"; readonly probability: number })
  /** Each request to the bucket takes `requestMs`. */
  | (Lasting & { readonly kind: "store.slow"; readonly requestMs: number })
  /** The clock of a process jumps by `byMs`. */
  | (Moment & { readonly kind: "clock.jump"; readonly pick: number; readonly byMs: number })
  /** Power is lost at the `operations`-th disk operation from then on. */
  | (Moment & { readonly kind: "power"; readonly operations: number });

export type FaultKind = SimulatedFault["kind"];

export const throwingRoles = [
  "cluster",
  "hosts",
  "jobs",
  "queue",
  "job",
  "coordinator",
  "checkpoint",
  "host",
  "device",
  "shard",
  "reader",
  "master",
  "pool",
] as const;

export type ThrowingRole = (typeof throwingRoles)[number];

export interface Scenario {
  readonly seed: number;
  /** Index of the job. */
  readonly job: number;
  readonly shape: ClusterShape;
  /** Whether checkpoints lie in the bucket, and not on the disk. */
  readonly isStored?: boolean;
  /** Time at which all remaining faults end: from then on the cluster must converge. */
  readonly faultsMs: number;
  readonly faults: readonly SimulatedFault[];
}

/** Subjects of the exchange's frames, of all other frames, and of all frames. */
const subjects = ["osiris.*.*.*.frames.>", "osiris.*.*.*.*.*.*", ">"] as const;

const shapes: readonly (readonly number[])[] = [[1], [2], [3], [1, 1], [2, 1], [0, 2], [1, 1, 1]];

const linkKinds = ["link.cut", "links", "links.delay"] as const;

/** One of so many seeds has a job with many tables. */
const wideEvery = 40;

/** One of so many seeds has its checkpoints in the bucket. */
const storedEvery = 3;

/** The scenario of a seed, with faults of these kinds. */
export function drawScenario(seed: number, among: readonly FaultKind[] = faultKinds): Scenario {
  const random = new RandomStream(seed, purposes.faults, 1);
  const pick = <Value>(values: readonly Value[]): Value =>
    values[random.below(values.length)] as Value;
  /** Log-uniform from `least` to `most`. */
  const wide = (least: number, most: number) => least * (most / least) ** random.uniform();
  const devices = pick(shapes);
  const delayMs = wide(0.05, 20);
  const usual = random.below(jobsDrawn);
  const isWide = seed % wideEvery === wideEvery - 1;
  const job = isWide ? jobsDrawn + (Math.floor(seed / wideEvery) % wideJobs) : usual;
  const leased = random.below(3) === 0 ? { leaseMs: wide(200, 5000) } : {};
  const shape = {
    devices,
    speed: { turnMs: wide(0.02, 10), startMs: wide(1, 500) },
    delayMs: [0, delayMs] as const,
    drift: random.below(2) * wide(0.001, 0.1),
    ...leased,
  };
  const faultsMs = undisturbedMs(shape) * wide(0.5, 4);
  // A few kinds at a time, since many kinds mask each other's effects.
  const drawn = faultKinds.filter(() => random.below(3) === 0);
  const kinds = among === faultKinds ? drawn : among;
  const count = kinds.length === 0 ? 0 : Math.floor(wide(1, 20));
  const faults = Array.from({ length: count }, () => {
    const atMs = faultsMs * random.uniform();
    const forMs = wide(5, 5000);
    const any = random.below(1 << 20);
    return faultOf(pick(kinds), { atMs, forMs, any, random, wide, pick });
  });
  const linked = linksOf(seed, among, faultsMs);
  const all = { seed, job, shape: { ...shape, ...linked.shape }, faultsMs };
  const some = [...faults, ...linked.faults];
  if (seed % storedEvery !== 1) return { ...all, faults: inOrder(some) };
  const ofStore = storeFaults(seed, among, faultsMs);
  return { ...all, isStored: true, faults: inOrder([...some, ...ofStore]) };
}

/**
 * Direct links, in half of the seeds, and their faults. They have a stream of their own, so that
 * they change no other fault.
 */
function linksOf(seed: number, among: readonly FaultKind[], faultsMs: number) {
  const random = new RandomStream(seed, purposes.faults, 5);
  const wide = (least: number, most: number) => least * (most / least) ** random.uniform();
  if (random.below(2) === 0) return { shape: {}, faults: [] };
  const shape = { linkMs: [0, wide(0.02, 50)] as const };
  const drawn = linkKinds.filter((kind) => among === faultKinds || among.includes(kind));
  if (drawn.length === 0) return { shape, faults: [] };
  const faults = Array.from({ length: random.below(8) }, (): SimulatedFault => {
    const atMs = faultsMs * random.uniform();
    const any = random.below(1 << 20);
    const forMs = wide(5, 5000);
    const pick = <Value>(values: readonly Value[]) => values[random.below(values.length)] as Value;
    return faultOf(pick(drawn), { atMs, forMs, any, random, wide, pick });
  });
  return { shape, faults };
}

function inOrder(faults: readonly SimulatedFault[]): SimulatedFault[] {
  return [...faults].sort((a, b) => a.atMs - b.atMs);
}

/** Faults of the bucket. They have a stream of their own, so that they change no other fault. */
function storeFaults(seed: number, among: readonly FaultKind[], faultsMs: number) {
  const random = new RandomStream(seed, purposes.faults, 3);
  const wide = (least: number, most: number) => least * (most / least) ** random.uniform();
  const kinds = ["store.error", "store.slow"] as const;
  const drawn = kinds.filter((kind) => among === faultKinds || among.includes(kind));
  if (drawn.length === 0) return [];
  return Array.from({ length: random.below(4) }, (): SimulatedFault => {
    const at = { atMs: faultsMs * random.uniform(), forMs: wide(50, 5000) };
    const kind = drawn[random.below(drawn.length)];
    if (kind === "store.slow") return { kind, ...at, requestMs: wide(1, 600) };
    return { kind: "store.error", ...at, probability: wide(0.02, 0.7) };
  });
}

/** Rough duration of a job without faults, so that faults are injected before it ends. */
function undisturbedMs({ devices, speed, delayMs: [, delayMs] }: ClusterShape): number {
  const isAlone = devices.length === 1 || devices[0] === 0;
  const start = 100 + 2 * speed.startMs + 40 * delayMs;
  const turns = isAlone ? 40 * Math.max(...devices) : 350;
  return start + turns * speed.turnMs + (isAlone ? 0 : 250 * delayMs);
}

interface Draw {
  readonly atMs: number;
  readonly forMs: number;
  readonly any: number;
  readonly random: RandomStream;
  wide(least: number, most: number): number;
  pick<Value>(values: readonly Value[]): Value;
}

export const faultKinds: readonly FaultKind[] = [
  "thread.kill",
  "thread.memory",
  "thread.throw",
  "thread.store",
  "thread.pause",
  "thread.slow",
  "actor.throw",
  "process.kill",
  "process.pause",
  "process.zombie",
  "run.scale",
  "run.move",
  "run.freeze",
  "broker.cut",
  "broker.restart",
  "partition",
  "frames",
  "frames.delay",
  "disk.full",
  "disk.error",
  "disk.slow",
  "clock.jump",
  "disk.flip",
  "power",
  "run.rate",
  "run.drain",
];

function faultOf(kind: FaultKind, draw: Draw): SimulatedFault {
  const { atMs, forMs, any, wide, pick } = draw;
  switch (kind) {
    case "thread.kill":
    case "thread.memory":
    case "thread.throw":
    case "process.kill":
      return { kind, atMs, pick: any };
    case "thread.store":
      return { kind, atMs, pick: any, stores: Math.ceil(wide(1, 40)) };
    case "thread.pause":
    case "process.pause":
    case "process.zombie":
    case "broker.cut":
    case "partition":
      return { kind, atMs, forMs, pick: any };
    case "thread.slow":
      return { kind, atMs, forMs, pick: any, factor: wide(2, 100) };
    case "actor.throw":
      return { kind, atMs, role: pick(throwingRoles), index: any % 3 };
    case "run.scale":
      return { kind, atMs, devices: 1 + (any % 3) };
    case "run.move":
      return { kind, atMs, shard: any % 4, device: Math.floor(any / 4) % 3 };
    case "run.freeze":
      return { kind, atMs, shard: any % 4, isThawed: Math.floor(any / 4) % 2 === 1 };
    case "run.rate":
      return { kind, atMs, times: any % 4 === 0 ? 0 : wide(1, 200) };
    case "run.drain":
      return { kind, atMs, reader: any % 3 };
    case "broker.restart":
    case "disk.full":
      return { kind, atMs, forMs };
    case "frames": {
      const what = pick(["drop", "duplicate", "reorder", "corrupt"] as const);
      return { kind, atMs, forMs, what, subjects: pick(subjects), probability: wide(0.01, 0.5) };
    }
    case "frames.delay":
      return { kind, atMs, forMs, delayMs: wide(10, 1000) };
    case "disk.error":
      return { kind, atMs, forMs, probability: wide(0.005, 0.2) };
    case "disk.slow":
      return { kind, atMs, forMs, operationMs: wide(1, 300) };
    case "clock.jump":
      return { kind, atMs, pick: any, byMs: pick([-1, 1]) * wide(10, 100_000) };
    case "disk.flip":
      return { kind, atMs, pick: any, bit: draw.random.below(2 ** 31) };
    case "store.error":
      return { kind, atMs, forMs, probability: wide(0.02, 0.7) };
    case "store.slow":
      return { kind, atMs, forMs, requestMs: wide(1, 600) };
    case "link.cut":
      return { kind, atMs, pick: any };
    case "links": {
      const what = pick(["cut", "halfOpen", "flip", "refuse"] as const);
      return { kind, atMs, forMs, what, probability: wide(0.005, 0.3) };
    }
    case "links.delay":
      return { kind, atMs, forMs, delayMs: wide(10, 1000) };
    case "power":
      return { kind, atMs, operations: Math.ceil(wide(1, 100)) };
    default:
      return kind satisfies never;
  }
}
