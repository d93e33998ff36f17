// Polls the cluster for all pages together: requests the leader's overview repeatedly while a page
// is open, and reports changes. No request is made while no page is open.
//
// Invariants
//   W1. Polling takes at most one part in `restFactor` of the time, as long as an overview takes at
//       most 25 ms: after one that took 20 ms, the next request follows after 4 s. The pause is at
//       most 5 s, because time spent waiting for a busy leader is no load.
//   W2. A tenant sees only its own runs, their actors and their devices.

import type { ActorOverview, Cancel, Client, Clock, OverviewReport } from "../../../internal.ts";
import type { ReportChanges } from "./page-api.ts";

/** Shortest polling interval, for small clusters. */
const everyMs = 1000;
/** Ratio of the pause to the time of a request. W1 */
const restFactor = 200;

export class ClusterWatch {
  readonly #client: Pick<Client, "inspectActor">;
  readonly #clock: Clock;
  readonly #notify: () => void;
  #report: OverviewReport | undefined;
  #cancel: Cancel | undefined;
  #lookers = 0;
  #isPending = false;

  constructor(client: Pick<Client, "inspectActor">, clock: Clock, notify: () => void) {
    this.#client = client;
    this.#clock = clock;
    this.#notify = notify;
  }

  /** The newest overview; undefined: none so far. */
  get report(): OverviewReport | undefined {
    return this.#report;
  }

  /** Registers an open page, until the returned function is called. */
  look(): () => void {
    this.#lookers++;
    if (this.#cancel === undefined && !this.#isPending) void this.#ask();
    let isLooking = true;
    return () => {
      if (isLooking) this.#lookers--;
      isLooking = false;
      if (this.#lookers === 0) this.close();
    };
  }

  close(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  async #ask(): Promise<void> {
    this.#isPending = true;
    const beganMs = this.#clock.now();
    try {
      this.#report = await this.#client.inspectActor<OverviewReport>("overview", {});
      this.#notify();
    } catch {
      // No leader, or a busy one: the last overview stays, and the request is repeated.
    }
    this.#isPending = false;
    if (this.#lookers === 0) return;
    const restMs = Math.max(everyMs, restFactor * (this.#clock.now() - beganMs));
    this.#cancel = this.#clock.after(Math.min(restMs, restMsMax), () => {
      this.#cancel = undefined;
      void this.#ask();
    });
  }
}

/** Longest pause: an older page would be out of date. W1 */
const restMsMax = 5000;

/** The part of a report that a tenant may see. W2 */
export function reportFor(report: OverviewReport, tenant: string | undefined): OverviewReport {
  if (tenant === undefined) return report;
  const runs = report.runs.filter((one) => one.tenant === tenant);
  const visible = new Set(runs.map(({ run }) => run));
  const processes = report.processes.flatMap((one) => {
    const actors = ownActors(one.actors, visible);
    return actors === undefined ? [] : [{ ...one, pid: 0, actors }];
  });
  return { cluster: report.cluster, runs, processes, unresponsive: [] };
}

/** The branches of a tree that lead to actors of these runs; undefined: none do. */
function ownActors(actor: ActorOverview, runs: ReadonlySet<string>): ActorOverview | undefined {
  const children = actor.children.flatMap((child) => ownActors(child, runs) ?? []);
  const isOther = actor.run !== undefined && !runs.has(actor.run);
  const isOwn = actor.run !== undefined && runs.has(actor.run);
  if (isOther || (children.length === 0 && !isOwn)) return undefined;
  return { ...actor, children };
}

/** The parts of a report that differ from those already sent (`sent`); marks them as sent. */
export function changesOf(report: OverviewReport, sent: Map<string, string>): ReportChanges {
  const changed = Object.entries(report).filter(([part, value]) => {
    const text = JSON.stringify(value);
    if (sent.get(part) === text) return false;
    sent.set(part, text);
    return true;
  });
  return Object.fromEntries(changed);
}
