// The waits-for graph: who waits for whom, for what and since when. Threads note their waits in the
// memory of their generation, hosts tell them with their heartbeats, and actors keep theirs in the
// book of their process; the coordinator of a run sees all of them together.
//
// Invariants
//   W1. Only waits that have a deadline are in it: who idles until there is work blames nobody.
//   W2. Who is waited for and waits for nobody is silent: the one that does not answer. In a circle
//       all are.

import { fromCallback } from "xstate";
import type { Clock } from "../../src/ports/clock.ts";

/** One edge of the graph. Plain data. */
export interface Wait {
  /** Who waits: `device:0`. */
  readonly who: string;
  /** For whom: `device:1`; `anyone` where it may be any of several. */
  readonly whom: string;
  /** For what: `the pooled embeddings of device 1 (round 17)`. */
  readonly what: string;
  /** For how long, in milliseconds. */
  readonly forMs: number;
  /** Steps that who waits has done, where it counts any. */
  readonly step?: number | undefined;
}

/** The graph, and who does not answer. */
export interface WaitsFor {
  readonly waits: readonly Wait[];
  /** Those who are waited for and wait for nobody. W2 */
  readonly silent: readonly string[];
}

/** A wait of an actor of this process. */
export interface OpenWait {
  readonly run: string;
  readonly who: string;
  whom(): readonly string[];
  readonly what: string;
  readonly sinceMs: number;
}

/** Who is waited for where it may be any of several. */
export const anyone = "anyone";

/** Waits younger than this are how things go. */
const youngMs = 250;

/** The waits of the actors of one process. */
export class WaitBook {
  readonly #clock: Clock;
  readonly #open = new Set<OpenWait>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Notes a wait, until the returned function is called. `whom`: who has not answered yet. */
  open(wait: Omit<OpenWait, "sinceMs"> & { readonly sinceMs?: number }): () => void {
    const entry = { sinceMs: this.#clock.now(), ...wait };
    this.#open.add(entry);
    return () => this.#open.delete(entry);
  }

  /** Those of one run. */
  waits(of: string): Wait[] {
    const nowMs = this.#clock.now();
    return [...this.#open].flatMap(({ run, who, whom, what, sinceMs }) => {
      const forMs = nowMs - sinceMs;
      return forMs < youngMs || run !== of
        ? []
        : whom().map((one) => ({ who, whom: one, what, forMs }));
    });
  }
}

/** The part of a network (mailbox.ts) that has the book of its process. */
export interface WithWaits {
  readonly waits: WaitBook;
}

/** Keeps a wait in the book for as long as it is invoked. */
export const waiting = fromCallback<
  { type: string },
  Omit<OpenWait, "whom"> & { readonly network: WithWaits; readonly whom: readonly string[] }
>(({ input: { network, whom, ...wait } }) => network.waits.open({ ...wait, whom: () => whom }));

/** Who does not answer, of all or of those on whom `from` waits in the end. W2 */
export function silentOf(waits: readonly Wait[], from?: string): string[] {
  const peersOf = (who: string) => waits.filter((wait) => wait.who === who).map(({ whom }) => whom);
  const reached = new Set<string>();
  const ahead = from === undefined ? waits.map(({ whom }) => whom) : peersOf(from);
  while (ahead.length > 0) {
    const next = ahead.pop();
    if (next === undefined || reached.has(next)) continue;
    reached.add(next);
    ahead.push(...peersOf(next));
  }
  const all = [...reached].filter((one) => one !== anyone).sort();
  const silent = all.filter((one) => peersOf(one).length === 0);
  return silent.length > 0 ? silent : all;
}

/** The graph of a run, by the last heartbeats of its hosts. */
export function waitsFor(
  { waits: book }: WithWaits,
  { run, threadWaits }: { readonly run: string; readonly threadWaits: readonly Wait[] },
): WaitsFor {
  const waits = [...threadWaits, ...book.waits(run)];
  return { waits, silent: silentOf(waits) };
}
