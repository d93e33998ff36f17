// Crash points: power is lost at every write, fsync, creation, rename and removal of a whole run,
// while it prepares its data, claims its generations, saves and restores; and again while it
// recovers. Unsynced data survives, is lost or is torn, as the seed decides.

import type { Scenario } from "./scenario.ts";
import { simulate } from "./simulate.ts";

/** Kinds of persisted state. */
export type CrashKind = "checkpoints" | "tiers" | "dynamic" | "lease" | "stored";

interface Writing {
  readonly job: number;
  readonly devices: readonly number[];
  readonly leaseMs?: number;
  readonly isStored?: boolean;
  /** Number of devices after scaling, so that persisted rows are taken up again. */
  readonly scaled?: number;
}

const writings: Readonly<Record<CrashKind, Writing>> = {
  /** Data, claims, whole parts, manifests, and garbage collection. */
  checkpoints: { job: 3, devices: [1] },
  /** Also rows in tiers: the next generation takes up the rows that a generation persisted. */
  tiers: { job: 5, devices: [2], scaled: 1 },
  /** Also ids of dynamic rows, and increments. */
  dynamic: { job: 6, devices: [1] },
  /** Also the leader's terms and run journal, which the next leader takes over. */
  lease: { job: 3, devices: [1], leaseMs: 400 },
  /** Checkpoints in the bucket: power is lost before or after the effect of a request. */
  stored: { job: 3, devices: [1], isStored: true },
};

export const crashKinds = Object.keys(writings) as readonly CrashKind[];

/** A scenario that loses power at these operations, counted over all restarts. */
export function crashing(kind: CrashKind, operations: readonly number[], seed = 1): Scenario {
  const { job, devices, leaseMs, scaled, isStored = false } = writings[kind];
  const shape = { devices, speed: { turnMs: 0.1, startMs: 1 }, delayMs: [0, 0.1] as const };
  const power = operations.map((count) => ({ kind: "power" as const, atMs: 0, operations: count }));
  const scale = { kind: "run.scale" as const, atMs: scaledAtMs, devices: scaled ?? 0 };
  return {
    seed,
    job,
    shape: leaseMs === undefined ? shape : { ...shape, leaseMs },
    isStored,
    faultsMs: 20_000,
    faults: scaled === undefined ? power : [...power, scale],
  };
}

/** In the middle of an undisturbed run. */
const scaledAtMs = 3;

/** Number of disk operations of an undisturbed run. */
export async function operationsOf(kind: CrashKind): Promise<number> {
  return (await simulate(crashing(kind, []))).operations;
}

/** One scenario per operation, with power lost at it. */
export async function crashPoints(kind: CrashKind): Promise<Scenario[]> {
  return countTo(await operationsOf(kind)).map((at) => crashing(kind, [at], at));
}

/** Power lost at each operation, and again at each of the next `within` operations. */
export async function crashPairs(kind: CrashKind, within: number): Promise<Scenario[]> {
  const firsts = countTo(await operationsOf(kind));
  return firsts.flatMap((at) =>
    countTo(within).map((after) => crashing(kind, [at, at + after], 1000 * at + after)),
  );
}

function countTo(most: number): number[] {
  return Array.from({ length: most }, (_, i) => i + 1);
}
