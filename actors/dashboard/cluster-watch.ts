// Looks at the cluster for all pages together: asks the leader for its overview, again and again
// while anybody looks, and tells what has changed since. Nothing is asked while nobody looks.
//
// Invariants
//   W1. Looking takes at most one part in `restFactor` of the time, as long as an overview comes
//       within 25 ms: one that took 20 ms is asked for again after 4 s, and none later than after
//       5 s, as time that a busy leader keeps it waiting is no cost.
//   W2. A tenant is told of its own runs, their actors and their devices alone.

import type { Cancel, Clock } from "../../src/ports/clock.ts";
import type { Client } from "../client/client.ts";
import type { ActorOverview, OverviewReport } from "../observe/overview.ts";
import type { ReportChanges } from "./page-api.ts";

/** How often it looks at a small cluster. */
const everyMs = 1000;
/** W1. */
const restFactor = 200;

export class ClusterWatch {
  readonly #client: Pick<Client, "inspectActor">;
  readonly #clock: Clock;
  readonly #tell: () => void;
  #report: OverviewReport | undefined;
  #cancel: Cancel | undefined;
  #lookers = 0;
  #isAsking = false;

  constructor(client: Pick<Client, "inspectActor">, clock: Clock, tell: () => void) {
    this.#client = client;
    this.#clock = clock;
    this.#tell = tell;
  }

  /** The newest overview; undefined: there was none yet. */
  get report(): OverviewReport | undefined {
    return this.#report;
  }

  /** One more page looks, until the returned function is called. */
  look(): () => void {
    this.#lookers++;
    if (this.#cancel === undefined && !this.#isAsking) void this.#ask();
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
    this.#isAsking = true;
    const beganMs = this.#clock.now();
    try {
      this.#report = await this.#client.inspectActor<OverviewReport>("overview", {});
      this.#tell();
    } catch {
      // There is no leader now, or it is busy: what was told last stays, and is asked for again.
    }
    this.#isAsking = false;
    if (this.#lookers === 0) return;
    const restMs = Math.max(everyMs, restFactor * (this.#clock.now() - beganMs));
    this.#cancel = this.#clock.after(Math.min(restMs, restMsMax), () => {
      this.#cancel = undefined;
      void this.#ask();
    });
  }
}

/** W1: a page that is older than this tells of what was. */
const restMsMax = 5000;

/** What a tenant may see of a report. W2 */
export function reportFor(report: OverviewReport, tenant: string | undefined): OverviewReport {
  if (tenant === undefined) return report;
  const runs = report.runs.filter((one) => one.tenant === tenant);
  const own = new Set(runs.map(({ run }) => run));
  const processes = report.processes.flatMap((one) => {
    const actors = ownActors(one.actors, own);
    return actors === undefined ? [] : [{ ...one, pid: 0, actors }];
  });
  return { cluster: report.cluster, runs, processes, silent: [] };
}

/** The branches of a tree that lead to actors of these runs; undefined: there are none. */
function ownActors(actor: ActorOverview, runs: ReadonlySet<string>): ActorOverview | undefined {
  const children = actor.children.flatMap((child) => ownActors(child, runs) ?? []);
  const isOther = actor.run !== undefined && !runs.has(actor.run);
  const isOwn = actor.run !== undefined && runs.has(actor.run);
  if (isOther || (children.length === 0 && !isOwn)) return undefined;
  return { ...actor, children };
}

/** The parts of a report that differ from what was told; notes them as told. */
export function changesOf(report: OverviewReport, told: Map<string, string>): ReportChanges {
  const changed = Object.entries(report).filter(([part, value]) => {
    const text = JSON.stringify(value);
    if (told.get(part) === text) return false;
    told.set(part, text);
    return true;
  });
  return Object.fromEntries(changed);
}
