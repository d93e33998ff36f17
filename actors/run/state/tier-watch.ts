// Tier watch of a generation: the last report of each tier, and how long its disk was full or slow.
// Plain data and pure functions.

import type { TierStatus } from "../../host/tier.ts";
import { roomWaitMs } from "../../threads/generation-spec.ts";
import type { EventBody } from "./run-events.ts";

/** Tiers by device. */
export type TierWatch = ReadonlyMap<number, Watched>;

interface Watched {
  readonly status: TierStatus;
  /** Time of the report; how long the tier was paused and slow until then. */
  readonly atMs: number;
  readonly pausedMs: number;
  readonly slowMs: number;
}

/** The watch of a new generation: no report yet. */
export const noTiers: TierWatch = new Map();

/** Adds a report of a tier; `events` are the changes to publish. */
export function withTier(
  watch: TierWatch,
  status: TierStatus,
  atMs: number,
  run: Parameters<typeof roomWaitMs>[0],
): { readonly watch: TierWatch; readonly events: readonly EventBody[] } {
  const { device, state, found } = status;
  const before = watch.get(device);
  const events: EventBody[] = [];
  if (found !== undefined && before?.status.found === undefined) {
    events.push({ type: "run.durable", device, action: "found", ...found });
  }
  if (state !== (before?.status.state ?? "serving")) {
    const message = `Tier of device ${device}: ${sentences[state](run.job.stepDeadlineMs / 1000, roomWaitMs(run) / 1000)}`;
    events.push({ type: "run.tier", device, state, message });
  }
  const after = (of: TierStatus["state"], ms = 0) =>
    before?.status.state === of ? ms + atMs - before.atMs : ms;
  const pausedMs = after("paused", before?.pausedMs);
  const slowMs = after("slow", before?.slowMs);
  return { watch: new Map(watch).set(device, { status, atMs, pausedMs, slowMs }), events };
}

/** Whether a tier waits for room on a full disk: a stall of the steps is then expected. */
export function isPaused(watch: TierWatch): boolean {
  return [...watch.values()].some(({ status }) => status.state === "paused");
}

/** How long tiers were paused and slow, summed over them; undefined: never. */
export function troubleOf(
  watch: TierWatch,
): { readonly pausedSeconds: number; readonly slowSeconds: number } | undefined {
  const tiers = [...watch.values()];
  const pausedSeconds = tiers.reduce((sum, { pausedMs }) => sum + pausedMs / 1000, 0);
  const slowSeconds = tiers.reduce((sum, { slowMs }) => sum + slowMs / 1000, 0);
  return pausedSeconds + slowSeconds === 0 ? undefined : { pausedSeconds, slowSeconds };
}

/** The backing stores of the tiers, sorted; undefined where no tier has reported one. */
export function storesOf(watch: TierWatch): readonly string[] | undefined {
  const stores = [...watch.values()].flatMap(({ status }) => status.store ?? []);
  return stores.length === 0 ? undefined : [...new Set(stores)].sort();
}

/** The message of a state, with a remedy. */
const sentences: Readonly<
  Record<TierStatus["state"], (deadlineSeconds: number, roomSeconds: number) => string>
> = {
  serving: () => "its disk works normally again",
  paused: (_, roomSeconds) =>
    `its disk is full, and it waits ${roomSeconds} s for free space; free some in its directory`,
  slow: (seconds) =>
    `its disk took more than ${seconds / 10} s for a request; after ${seconds} s the run goes back ` +
    "to its last checkpoint: raise `stepDeadlineMs`, or name a faster disk in `tiers.directory`",
};
