// The meter of a device's steps: how long steps take, and what the device waits for in them. The
// counters lie in shared memory; the host samples them (actors/host/host-generation.ts). No
// computation reads them, so no weight depends on them.
//
//   word 0           steps
//   word 1           batches that were ready when a step began, summed over the steps
//   word 2           duration of the steps
//   word 3           input exchange: mapping ids to rows, and sending the rows
//   words 4..        waits, in the order of `waitedFor`
//   last words       rows of cached tables, in the order of `tierCounts`
//
// Times are microseconds. All words only grow.

import type { Cells } from "../../exchange/cells.ts";
import type { ChannelName } from "../../exchange/exchange.ts";
import { type FlightWaits, flightOf, flightsIn, flownChannels } from "../../exchange/flights.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Timeline } from "../../ports/timeline.ts";

/**
 * What a device waits for in a step: its batch, other devices' parts of an exchange, or its own
 * tiers; and between two steps, the capture of its part of a checkpoint.
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

/**
 * Channels whose waits count under another name: stale vectors and rows under the fresh ones,
 * deferred ones and bag lengths under the vectors that they accompany.
 */
const alike: Readonly<Record<string, WaitedFor>> = {
  bagLengths: "pooled",
  deferred: "pooled",
  stalePartials: "partials",
  stalePooled: "pooled",
  staleRows: "rows",
  statistics: "losses",
};

/** The name under which waits for a channel count. */
export function waitOf(channel: string): WaitedFor {
  return alike[channel] ?? (channel as WaitedFor);
}

/**
 * Counts of cached tables: distinct rows that batches needed; of these, misses in device memory; of
 * the misses, hits in host memory; and rows whose set had no way left for them.
 */
const tierCounts = ["rows", "missed", "ddrHits", "conflicts"] as const;

/** Totals of the requests to a device's tiers so far. */
export type TierCounts = Readonly<Record<(typeof tierCounts)[number], number>>;

const waitsFirst = 4;
const tiersFirst = waitsFirst + waitedFor.length;

/** Words of one device. */
export const meterWords: number = tiersFirst + tierCounts.length;

export interface StepMeter {
  /** Wraps `cells` so that the time of their waits counts as waiting for `what`. */
  cellsFor(what: ChannelName | "batch" | "gradients" | "tiers", cells: Cells): Cells;
  /** A step begins; `batches` are ready for it and later steps. Waits before it do not count. */
  begin(batches: number): void;
  /** Runs the input exchange of a batch. */
  exchangeInput<T>(run: () => Promise<T>): Promise<T>;
  /** Takes a cut, between two steps; resolves to the milliseconds that it took. */
  cut(take: () => Promise<void>): Promise<number>;
  /** The step is over: the counters may be read. `tiers` is given where tables are cached. */
  end(tiers?: TierCounts): void;
}

/** Shorter waits are not noted in the timeline. */
const notedWaitMs = 0.02;

/**
 * A meter over a device's words. `flights`: times of flights to its host; left out: there is no
 * other host. `timeline`: receives the waits of its steps.
 */
export function createStepMeter(
  words: BigInt64Array,
  clock: Clock,
  more: {
    readonly flights?: FlightWaits | undefined;
    readonly timeline?: Timeline | undefined;
  } = {},
): StepMeter {
  const { flights, timeline } = more;
  const epochMs = clock.epochMs() - clock.now();
  const totals = new Float64Array(meterWords);
  const waits = new Float64Array(waitedFor.length);
  let inputMs = 0;
  let beganMs = 0;
  let isInStep = false;
  const waitedMs = () => waits.reduce((sum, ms) => sum + ms, 0);
  const add = (word: number, count: number) => {
    // A difference of sums may be slightly negative, which a heartbeat must not carry.
    const total = (totals[word] ?? 0) + Math.max(0, count);
    totals[word] = total;
    Atomics.store(words, word, BigInt(Math.floor(total)));
  };
  return {
    cellsFor(what, cells) {
      const at = waitedFor.indexOf(waitOf(what));
      if (at < 0) return cells;
      const flight = flights === undefined ? undefined : flightOf(what);
      const waited = (startMs: number) => {
        const endMs = clock.now();
        const ms = endMs - startMs;
        waits[at] = (waits[at] ?? 0) + ms;
        // The many waits of an evaluation would overwrite the steps before it.
        if (isInStep && ms >= notedWaitMs) {
          timeline?.add("wait", at, 0, epochMs + startMs, epochMs + endMs);
        }
        return ms;
      };
      if (flights === undefined || flight === undefined) {
        return {
          ...cells,
          async waitUntil(wait, isTrue, of) {
            const startMs = clock.now();
            await cells.waitUntil(wait, isTrue, of);
            waited(startMs);
          },
        };
      }
      return {
        ...cells,
        // A flight counts when it lands, which is before the wait for it ends.
        async waitUntil(wait, isTrue, of) {
          const [any, own] = [flights.flown(0), flights.flown(flight)];
          const startMs = clock.now();
          await cells.waitUntil(wait, isTrue, of);
          if (waited(startMs) < notedWaitMs) return;
          flights.add(0, epochMs + startMs, any);
          flights.add(flight, epochMs + startMs, own);
        },
      };
    },

    begin(batches) {
      waits.fill(0);
      inputMs = 0;
      beganMs = clock.now();
      isInStep = true;
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
      isInStep = false;
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

/** Breakdown of the time of some steps. */
export interface StepTimes {
  /** Number of steps: the mean of the devices. */
  readonly steps: number;
  /** Milliseconds of a step: the mean of the devices. */
  readonly stepMs: number;
  /** Milliseconds that one reader takes for a batch; 0: no batch was read. */
  readonly readMs: number;
  /** Mean number of batches that were ready when a step began, its own batch included. */
  readonly batchesThere: number;
  /** Shares of the step, which add up to 1: computing, sending ids, and each kind of wait. */
  readonly shares: Readonly<Record<"computing" | "sendingIds" | WaitedFor, number>>;
  /** The tiers that served the rows of cached tables; left out: no such row was needed. */
  readonly tiers?: TierRates;
  /** How the file was read in the split order; left out: it was read in another order. */
  readonly splits?: SplitReading;
  /**
   * Ids before deduplication for each id that is sent, looked up and trained (RecD's DedupeFactor,
   * over all groups); left out: no lists are deduplicated.
   */
  readonly dedupeFactor?: number;
  /** The exchange, exposed and hidden; left out: there is one device. */
  readonly exchange?: ExchangeTimes;
}

/**
 * The time of the exchange, as shares of the step. Bytes count as in flight from the moment they
 * are due at their device until they have all arrived at the other host; inside a host they take no
 * time.
 */
export interface ExchangeTimes {
  /** Devices wait for others: the sum of the shares of waits for channels. */
  readonly exposed: number;
  /**
   * The part of `exposed` in which bytes were in flight; the rest waits for devices that compute.
   */
  readonly inFlight: number;
  /** Bytes are in flight while the device computes. */
  readonly hidden: number;
  /** The same by channel: its bytes are in flight while the device does not wait for them. */
  readonly hiddenBy: Readonly<Partial<Record<WaitedFor, number>>>;
}

/** Breakdown of the time of a run. */
export interface RunTimes extends StepTimes {
  /**
   * Steps after the programs were compiled, and their mean time without checkpoints; left out: the
   * run was too short.
   */
  readonly warm?: { readonly steps: number; readonly stepMs: number };
}

/** How readers read data in the split order. */
export interface SplitReading {
  /** Bytes read from the file for each byte of the trained samples, read-ahead included. */
  readonly overRead: number;
  /** Mean milliseconds per batch that a reader waits for the disk. */
  readonly waitMs: number;
}

/** The shares of the rows of cached tables that each tier served; they add up to 1. */
export interface TierRates {
  /** Mean distinct rows per step of a device, summed over its shards. */
  readonly rows: number;
  readonly hbm: number;
  readonly ddr: number;
  /** Read from disk, or newly initialised. */
  readonly ssd: number;
  /** Share of rows whose set of the cache had no way left for them: a part of `ddr` and `ssd`. */
  readonly conflicts: number;
}

/**
 * The counters of a host. `devices` has the words of each device. `reading` has seven sums over its
 * readers: batches; microseconds; in the split order bytes of the file, bytes of samples and
 * microseconds of waiting for the disk; and the ids of deduplicated lists before and after
 * deduplication.
 */
export interface HostMeters {
  readonly devices: readonly (readonly number[])[];
  readonly reading: readonly number[];
  /**
   * With cached tables: the miss-curve counts of each table, summed over the devices
   * (tier-advice.ts).
   */
  readonly curves?: readonly (readonly number[])[] | undefined;
  /** With several hosts: flights to this host, and its waits for them (flights.ts). */
  readonly flights?: readonly number[] | undefined;
}

/**
 * Breakdown of the step time between two samples of the counters of some hosts; `from` is undefined
 * for a host without an earlier sample. Undefined: no step ended between the samples.
 */
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
  // A sample may fall between the writes of one step, with its waits but without its duration.
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
    ...(devices > 1 && { exchange: exchangeTimesOf(samples, waits, whole) }),
  };
}

/** Waits that are not for another device's part of an exchange. */
const ownWaits: ReadonlySet<WaitedFor> = new Set(["batch", "tiers", "checkpoint"]);

function exchangeTimesOf(
  samples: Parameters<typeof timesBetween>[0],
  waits: Float64Array,
  wholeMicros: number,
): ExchangeTimes {
  const exposed = waitedFor.reduce((sum, what, at) => {
    return ownWaits.has(what) ? sum : sum + (waits[at] ?? 0);
  }, 0);
  const hidden = new Float64Array(1 + flownChannels.length);
  let inFlight = 0;
  for (const { from, to } of samples) {
    const before = flightsIn(from?.flights ?? []);
    const now = flightsIn(to.flights ?? []);
    for (const [at, flown] of now.flown.entries()) {
      const waited = (now.waited[at] ?? 0) - (before.waited[at] ?? 0);
      // Each of the host's devices might have waited for the flight.
      const all = to.devices.length * (flown - (before.flown[at] ?? 0));
      hidden[at] = (hidden[at] ?? 0) + Math.max(0, all - waited);
      if (at === 0) inFlight += waited;
    }
  }
  const hiddenBy: Partial<Record<WaitedFor, number>> = {};
  for (const [at, channel] of flownChannels.entries()) {
    const what = waitOf(channel);
    const share = (hidden[1 + at] ?? 0) / wholeMicros;
    if (share > 0) hiddenBy[what] = (hiddenBy[what] ?? 0) + share;
  }
  return {
    exposed: exposed / wholeMicros,
    inFlight: Math.min(inFlight, exposed) / wholeMicros,
    hidden: (hidden[0] ?? 0) / wholeMicros,
    hiddenBy,
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
  // A sample may fall between the writes of one step: the limits keep every share at 0 or above.
  const missed = Math.min(asked, rows);
  const ddrHits = Math.min(hits, missed);
  const shares = { hbm: 1 - missed / rows, ddr: ddrHits / rows, ssd: (missed - ddrHits) / rows };
  return { tiers: { rows: rows / steps, ...shares, conflicts: conflicts / rows } };
}
