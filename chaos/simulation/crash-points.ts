// Crash points: power is lost at every write, fsync, creation, renaming and removal that a whole
// run does on its disk, while it prepares its data, claims its generations, saves and restores; and
// again while it recovers from that. What was not synced survives, is lost or is torn, by the seed.

import type { Scenario } from "./scenario.ts";
import { simulate } from "./simulate.ts";

/** What is written one way or another. */
export type CrashKind = "checkpoints" | "tiers" | "dynamic" | "lease";

interface Writing {
  readonly job: number;
  readonly devices: readonly number[];
  readonly leaseMs?: number;
  /** Devices that the run goes on with after a while: what it has at rest is taken up again. */
  readonly scaled?: number;
}

const writings: Readonly<Record<CrashKind, Writing>> = {
  /** Data, claims, whole parts, manifests, and what is collected. */
  checkpoints: { job: 3, devices: [1] },
  /** And rows on the disk; the rows that a generation lays to rest, the next generation takes. */
  tiers: { job: 5, devices: [2], scaled: 1 },
  /** And the ids of dynamic rows, and parts of what changed since the one before. */
  dynamic: { job: 6, devices: [1] },
  /** And the terms of the leader, and the journal of its runs; another one takes them up. */
  lease: { job: 3, devices: [1], leaseMs: 400 },
};

export const crashKinds = Object.keys(writings) as readonly CrashKind[];

/** A run in which power is lost in these of its operations, counted on from one to the next. */
export function crashing(kind: CrashKind, operations: readonly number[], seed = 1): Scenario {
  const { job, devices, leaseMs, scaled } = writings[kind];
  const shape = { devices, speed: { turnMs: 0.1, startMs: 1 }, delayMs: [0, 0.1] as const };
  const power = operations.map((count) => ({ kind: "power" as const, atMs: 0, operations: count }));
  const scale = { kind: "run.scale" as const, atMs: scaledAtMs, devices: scaled ?? 0 };
  return {
    seed,
    job,
    shape: leaseMs === undefined ? shape : { ...shape, leaseMs },
    calmMs: 20_000,
    faults: scaled === undefined ? power : [...power, scale],
  };
}

/** In the midst of a run that nothing disturbs. */
const scaledAtMs = 4;

/** How many operations a run does that nothing disturbs. */
export async function operationsOf(kind: CrashKind): Promise<number> {
  return (await simulate(crashing(kind, []))).operations;
}

/** Power lost once, at each operation. */
export async function crashPoints(kind: CrashKind): Promise<Scenario[]> {
  return countTo(await operationsOf(kind)).map((at) => crashing(kind, [at], at));
}

/** Power lost at each operation, and again at each of so many after it. */
export async function crashPairs(kind: CrashKind, within: number): Promise<Scenario[]> {
  const firsts = countTo(await operationsOf(kind));
  return firsts.flatMap((at) =>
    countTo(within).map((after) => crashing(kind, [at, at + after], 1000 * at + after)),
  );
}

function countTo(most: number): number[] {
  return Array.from({ length: most }, (_, i) => i + 1);
}
