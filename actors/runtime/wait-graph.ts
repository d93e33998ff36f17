// The waits-for graph: which actor waits for which other, for what and since when. Threads record
// their waits in the memory of their generation, and hosts send these with their heartbeats. Actors
// record their waits in the book of their process. The coordinator of a run sees all waits
// together.
//
// Invariants
//   W1. Only waits with a deadline are in the graph: an idle actor does not count as waiting.
//   W2. An actor that others wait on, waiting on none itself, is unresponsive. In a cycle all are.

import { fromCallback } from "xstate";
import type { Clock } from "../../src/ports/clock.ts";

/** One edge of the graph. Plain data. */
export interface Wait {
  /** The actor that waits: `device:0`. */
  readonly waiter: string;
  /** The actor that it waits for: `device:1`; `anyone` if it may be any of several. */
  readonly awaited: string;
  /** What it waits for: `the pooled embeddings of device 1 (round 17)`. */
  readonly what: string;
  /** How long it has waited, in milliseconds. */
  readonly forMs: number;
  /** Steps that the waiting actor has done, if it counts steps. */
  readonly step?: number | undefined;
}

/** The graph, and its unresponsive actors. */
export interface WaitsFor {
  readonly waits: readonly Wait[];
  /** Unresponsive actors: others wait on them, and they wait on none. W2 */
  readonly unresponsive: readonly string[];
}

/** A wait of an actor of this process. */
export interface OpenWait {
  readonly run: string;
  readonly waiter: string;
  awaited(): readonly string[];
  readonly what: string;
  readonly sinceMs: number;
}

/** Placeholder for the other actor, in a wait for any of several actors. */
export const anyone = "anyone";

/** Shorter waits are normal and not in the graph. */
const youngMs = 250;

/** The wait book: current waits of the actors of one process. */
export class WaitBook {
  readonly #clock: Clock;
  readonly #open = new Set<OpenWait>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Records a wait until the returned function is called. `awaited`: the actors that have not
   * answered.
   */
  open(wait: Omit<OpenWait, "sinceMs"> & { readonly sinceMs?: number }): () => void {
    const entry = { sinceMs: this.#clock.now(), ...wait };
    this.#open.add(entry);
    return () => this.#open.delete(entry);
  }

  /** The waits of one run that are older than `youngMs`. */
  waits(of: string): Wait[] {
    const nowMs = this.#clock.now();
    return [...this.#open].flatMap(({ run, waiter, awaited, what, sinceMs }) => {
      const forMs = nowMs - sinceMs;
      return forMs < youngMs || run !== of
        ? []
        : awaited().map((one) => ({ waiter, awaited: one, what, forMs }));
    });
  }
}

/** The part of a network (mailbox.ts) that holds the wait book of its process. */
export interface WithWaits {
  readonly waits: WaitBook;
}

/** Keeps a wait in the book while it is invoked. */
export const waiting = fromCallback<
  { type: string },
  Omit<OpenWait, "awaited"> & { readonly network: WithWaits; readonly awaited: readonly string[] }
>(({ input: { network, awaited, ...wait } }) =>
  network.waits.open({ ...wait, awaited: () => awaited }),
);

/**
 * The unresponsive actors: of the whole graph, or of the part that `from` waits on, directly or
 * through others. W2
 */
export function unresponsiveIn(waits: readonly Wait[], from?: string): string[] {
  const peersOf = (actor: string) =>
    waits.filter((wait) => wait.waiter === actor).map(({ awaited }) => awaited);
  const reached = new Set<string>();
  const ahead = from === undefined ? waits.map(({ awaited }) => awaited) : peersOf(from);
  while (ahead.length > 0) {
    const next = ahead.pop();
    if (next === undefined || reached.has(next)) continue;
    reached.add(next);
    ahead.push(...peersOf(next));
  }
  const all = [...reached].filter((one) => one !== anyone).sort();
  const unresponsive = all.filter((one) => peersOf(one).length === 0);
  return unresponsive.length > 0 ? unresponsive : all;
}

/** The wait graph of a run, by the last heartbeats of its hosts. */
export function waitsFor(
  { waits: book }: WithWaits,
  { run, threadWaits }: { readonly run: string; readonly threadWaits: readonly Wait[] },
): WaitsFor {
  const waits = [...threadWaits, ...book.waits(run)];
  return { waits, unresponsive: unresponsiveIn(waits) };
}
