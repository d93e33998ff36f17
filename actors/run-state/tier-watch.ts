// The watch over a generation's tiers: what each of them last told, and how long they were in
// trouble. Plain data and pure functions.

import type { TierNews } from "../host/tier.ts";
import { roomWaitMs } from "../threads/generation-spec.ts";
import type { EventBody } from "./run-events.ts";

/** By device. */
export type TierWatch = ReadonlyMap<number, Watched>;

interface Watched {
  readonly news: TierNews;
  /** When it told so; how long it was in trouble until then. */
  readonly atMs: number;
  readonly pausedMs: number;
  readonly slowMs: number;
}

/** Nothing was told yet. */
export const noTiers: TierWatch = new Map();

/** The watch with what a tier tells, and what is new in it. */
export function withTier(
  watch: TierWatch,
  news: TierNews,
  atMs: number,
  run: Parameters<typeof roomWaitMs>[0],
): { readonly watch: TierWatch; readonly events: readonly EventBody[] } {
  const { device, state, found } = news;
  const before = watch.get(device);
  const events: EventBody[] = [];
  if (found !== undefined && before?.news.found === undefined) {
    events.push({ type: "run.durable", device, action: "found", ...found });
  }
  if (state !== (before?.news.state ?? "serving")) {
    const message = `Tier of device ${device}: ${sentences[state](run.job.stepDeadlineMs / 1000, roomWaitMs(run) / 1000)}`;
    events.push({ type: "run.tier", device, state, message });
  }
  const after = (of: TierNews["state"], ms = 0) =>
    before?.news.state === of ? ms + atMs - before.atMs : ms;
  const pausedMs = after("paused", before?.pausedMs);
  const slowMs = after("slow", before?.slowMs);
  return { watch: new Map(watch).set(device, { news, atMs, pausedMs, slowMs }), events };
}

/** Whether a tier waits for room on a full disk: steps stand still meanwhile, as they should. */
export function isPaused(watch: TierWatch): boolean {
  return [...watch.values()].some(({ news }) => news.state === "paused");
}

/** How long tiers were in trouble, summed over them; undefined: never. */
export function troubleOf(
  watch: TierWatch,
): { readonly pausedSeconds: number; readonly slowSeconds: number } | undefined {
  const tiers = [...watch.values()];
  const pausedSeconds = tiers.reduce((sum, { pausedMs }) => sum + pausedMs / 1000, 0);
  const slowSeconds = tiers.reduce((sum, { slowMs }) => sum + slowMs / 1000, 0);
  return pausedSeconds + slowSeconds === 0 ? undefined : { pausedSeconds, slowSeconds };
}

/** The stores that have the rows below memory, sorted; undefined where no tier has told of one. */
export function storesOf(watch: TierWatch): readonly string[] | undefined {
  const stores = [...watch.values()].flatMap(({ news }) => news.store ?? []);
  return stores.length === 0 ? undefined : [...new Set(stores)].sort();
}

/** What a state means, and what to do about it. */
const sentences: Readonly<
  Record<TierNews["state"], (deadlineSeconds: number, roomSeconds: number) => string>
> = {
  serving: () => "its disk is well again",
  paused: (_, roomSeconds) =>
    `its disk is full, and it waits ${roomSeconds} s for room; make some in its directory`,
  slow: (seconds) =>
    `its disk took more than ${seconds / 10} s for a request; after ${seconds} s the run goes back ` +
    "to its last checkpoint: raise `stepDeadlineMs`, or name a faster disk in `tiers.directory`",
};
