// The meter of a device's steps: how long they take, and for what the device waits in them.
// Counters in shared memory, which the host samples (actors/host/host-generation.ts). It is asked
// by no computation: no weight depends on it.
//
//   word 0           steps
//   word 1           batches that were there when a step began, summed over the steps
//   word 2           all of the steps
//   word 3           ids becoming rows, and rows being sent: the input exchange
//   words 4..        waits, in the order of `waitedFor`
//   last words       rows of cached tables, in the order of `tierCounts`
//
// Times are microseconds. All words only grow.

import type { Cells } from "../../exchange/cells.ts";
import type { ChannelName } from "../../exchange/exchange.ts";
import type { Clock } from "../../ports/clock.ts";

/**
 * What a device waits for in a step: its batch, others' parts of an exchange, or its own tiers; and
 * between two steps, for its part of a checkpoint to be taken.
 */
export const waitedFor = [
  "batch",
  "ids",
  "partials",
  "pooled",
  "rows",
  "dPooled",
  "dPartials",
  "dRows",
  "rowSums",
  "gradients",
  "losses",
  "tiers",
  "checkpoint",
] as const satisfies readonly (ChannelName | "batch" | "gradients" | "tiers" | "checkpoint")[];

export type WaitedFor = (typeof waitedFor)[number];

/** Stale vectors and rows are waited for as the others are, lengths as the vectors they go with. */
const alike: Readonly<Record<string, WaitedFor>> = {
  bagLengths: "pooled",
  stalePartials: "partials",
  stalePooled: "pooled",
  staleRows: "rows",
  statistics: "losses",
};

/**
 * Of cached tables: distinct rows that batches needed; of these, rows that device memory missed; of
 * the missed rows, hits in host memory; and rows that found no way in their set.
 */
const tierCounts = ["rows", "missed", "ddrHits", "conflicts"] as const;

/** What a device's tiers were asked for so far, in all. */
export type TierCounts = Readonly<Record<(typeof tierCounts)[number], number>>;

const waitsFirst = 4;
const tiersFirst = waitsFirst + waitedFor.length;

/** Words of one device. */
export const meterWords: number = tiersFirst + tierCounts.length;

export interface StepMeter {
  /** The same cells; what a wait there takes is counted as one for `what`. */
  cellsFor(what: ChannelName | "batch" | "gradients" | "tiers", cells: Cells): Cells;
  /** A step begins; `batches` are ready for it and later steps. Waits before it do not count. */
  begin(batches: number): void;
  /** Runs the input exchange of a batch. */
  exchangeInput<T>(run: () => Promise<T>): Promise<T>;
  /** Takes a cut, between two steps; resolves to the milliseconds that it took. */
  cut(take: () => Promise<void>): Promise<number>;
  /** The step is over: the counters may be read. `tiers`: where tables are cached. */
  end(tiers?: TierCounts): void;
}

/** A meter over a device's words. */
export function createStepMeter(words: BigInt64Array, clock: Clock): StepMeter {
  const totals = new Float64Array(meterWords);
  const waits = new Float64Array(waitedFor.length);
  let inputMs = 0;
  let beganMs = 0;
  const waitedMs = () => waits.reduce((sum, ms) => sum + ms, 0);
  const add = (word: number, count: number) => {
    // A difference of sums may fall a hair below nothing, and no heartbeat may carry that.
    const total = (totals[word] ?? 0) + Math.max(0, count);
    totals[word] = total;
    Atomics.store(words, word, BigInt(Math.floor(total)));
  };
  return {
    cellsFor(what, cells) {
      const at = waitedFor.indexOf(alike[what] ?? (what as WaitedFor));
      if (at < 0) return cells;
      return {
        ...cells,
        async waitUntil(wait, isTrue, of) {
          const startMs = clock.now();
          await cells.waitUntil(wait, isTrue, of);
          waits[at] = (waits[at] ?? 0) + clock.now() - startMs;
        },
      };
    },

    begin(batches) {
      waits.fill(0);
      inputMs = 0;
      beganMs = clock.now();
      add(1, batches);
    },

    async exchangeInput(run) {
      const startMs = clock.now() - waitedMs();
      const result = await run();
      inputMs += clock.now() - waitedMs() - startMs;
      return result;
    },

    async cut(take) {
      const startMs = clock.now();
      await take();
      const ms = clock.now() - startMs;
      add(2, 1000 * ms);
      add(waitsFirst + waitedFor.indexOf("checkpoint"), 1000 * ms);
      return ms;
    },

    end(tiers) {
      for (const [at, name] of tierCounts.entries()) {
        const word = tiersFirst + at;
        if (tiers !== undefined) add(word, tiers[name] - (totals[word] ?? 0));
      }
      add(2, 1000 * (clock.now() - beganMs));
      add(3, 1000 * inputMs);
      for (const [at, ms] of waits.entries()) add(waitsFirst + at, 1000 * ms);
      add(0, 1);
    },
  };
}

/** Where the time of some steps went. */
export interface StepTimes {
  /** How many they were: the mean of the devices. */
  readonly steps: number;
  /** Milliseconds of a step: the mean of the devices. */
  readonly stepMs: number;
  /** Milliseconds in which one reader reads a batch; 0: none was read. */
  readonly readMs: number;
  /** Batches that were there when a step began, its own among them: the mean. */
  readonly batchesThere: number;
  /** Shares of the step, which add up to 1: work, and waiting for what. */
  readonly shares: Readonly<Record<"computing" | "sendingIds" | WaitedFor, number>>;
  /** Where the rows of cached tables came from; left out, none was needed. */
  readonly tiers?: TierRates;
  /** How the file was read in the split order; left out: in another order. */
  readonly splits?: SplitReading;
  /**
   * Ids of the lists that are deduplicated for each id that is sent, looked up and trained (RecD's
   * DedupeFactor, over all groups); left out: there are none.
   */
  readonly dedupeFactor?: number;
}

/** Where the time of a run went. */
export interface RunTimes extends StepTimes {
  /**
   * Steps once the programs were compiled, and how long they took without checkpoints; left out:
   * the run was too short.
   */
  readonly warm?: { readonly steps: number; readonly stepMs: number };
}

/** How readers read data in the split order. */
export interface SplitReading {
  /** Bytes of the file for each byte of the samples that were trained, those ahead among them. */
  readonly overRead: number;
  /** Milliseconds in which a reader waits for the disk, of a batch: the mean. */
  readonly waitMs: number;
}

/** Where the rows of cached tables came from. The shares add up to 1. */
export interface TierRates {
  /** Distinct rows of a device's step, shard by shard. */
  readonly rows: number;
  readonly hbm: number;
  readonly ddr: number;
  /** From the disk, or born. */
  readonly ssd: number;
  /** Rows that found no way in their set of the cache: a part of `ddr` and `ssd`. */
  readonly conflicts: number;
}

/**
 * The counters of a host: the words of its devices; of its readers batches and microseconds, and in
 * the split order bytes of the file, bytes of samples and microseconds of waiting for the disk; and
 * the ids of lists that are deduplicated, and of the distinct ones.
 */
export interface HostMeters {
  readonly devices: readonly (readonly number[])[];
  readonly reading: readonly number[];
  /** Where tables are cached: the counts of each one's curve, over the devices (tier-advice.ts). */
  readonly curves?: readonly (readonly number[])[] | undefined;
}

/** What was counted between two samples of some hosts, each beside the earlier one of its own. */
export function timesBetween(
  samples: readonly { readonly from: HostMeters | undefined; readonly to: HostMeters }[],
): StepTimes | undefined {
  const sums = new Float64Array(meterWords);
  let devices = 0;
  const reading = new Float64Array(7);
  for (const { from, to } of samples) {
    for (const [device, words] of to.devices.entries()) {
      devices++;
      for (let at = 0; at < meterWords; at++) {
        sums[at] = (sums[at] ?? 0) + (words[at] ?? 0) - (from?.devices[device]?.[at] ?? 0);
      }
    }
    for (let at = 0; at < reading.length; at++) {
      reading[at] = (reading[at] ?? 0) + (to.reading[at] ?? 0) - (from?.reading[at] ?? 0);
    }
  }
  const [batches = 0, readMicros = 0] = reading;
  const [steps = 0, there = 0, micros = 0, input = 0] = sums;
  const waits = sums.subarray(waitsFirst, tiersFirst);
  if (steps === 0 || micros === 0) return undefined;
  const waited = waits.reduce((sum, wait) => sum + wait, 0);
  // A sample may fall between two words of one step: waits count, and the whole not yet.
  const whole = Math.max(micros, waited + input);
  const shareOf = (part: number) => part / whole;
  return {
    steps: steps / devices,
    stepMs: micros / steps / 1000,
    readMs: batches === 0 ? 0 : readMicros / batches / 1000,
    batchesThere: there / steps,
    shares: {
      computing: shareOf(whole - waited - input),
      sendingIds: shareOf(input),
      ...(Object.fromEntries(
        waitedFor.map((what, at) => [what, shareOf(waits[at] ?? 0)]),
      ) as Record<WaitedFor, number>),
    },
    ...tierRatesOf(sums.subarray(tiersFirst), steps),
    ...splitReadingOf(reading),
    ...dedupeFactorOf(reading),
  };
}

function splitReadingOf(reading: Float64Array): { readonly splits?: SplitReading } {
  const [batches = 0, , file = 0, samples = 0, waitMicros = 0] = reading;
  if (samples === 0) return {};
  return { splits: { overRead: file / samples, waitMs: waitMicros / batches / 1000 } };
}

function dedupeFactorOf(reading: Float64Array): { readonly dedupeFactor?: number } {
  const [ids = 0, distinct = 0] = reading.subarray(5);
  return distinct === 0 ? {} : { dedupeFactor: ids / distinct };
}

function tierRatesOf(counts: Float64Array, steps: number): { readonly tiers?: TierRates } {
  const [rows = 0, asked = 0, hits = 0, conflicts = 0] = counts;
  if (rows === 0) return {};
  // A sample may fall between two words of one step: no share is below nothing for that.
  const missed = Math.min(asked, rows);
  const ddrHits = Math.min(hits, missed);
  const shares = { hbm: 1 - missed / rows, ddr: ddrHits / rows, ssd: (missed - ddrHits) / rows };
  return { tiers: { rows: rows / steps, ...shares, conflicts: conflicts / rows } };
}
