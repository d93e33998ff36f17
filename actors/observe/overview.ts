// The overview of a cluster: what a page or a screen shows again and again, without what grows with
// the tables. Shards are counted at their device instead of told one by one.

import type { ClusterReport, RunReport } from "./cluster-report.ts";
import type { ActorReport, ProcessReport } from "./process-report.ts";

/** An actor of the overview. */
export interface ActorOverview {
  readonly actor: string;
  readonly run?: string;
  readonly generation?: number;
  readonly state: string;
  /** Work that has come and is not done. */
  readonly depth: number;
  readonly children: readonly ActorOverview[];
  /** Of its shards: how many are in each state; left out: it has none. */
  readonly shards?: Readonly<Record<string, number>>;
}

export interface ProcessOverview
  extends Omit<ProcessReport, "actors" | "credits" | "tiers" | "shards" | "readers"> {
  readonly actors: ActorOverview;
}

/** What `inspect.overview` answers. */
export interface OverviewReport {
  readonly cluster: string;
  readonly runs: readonly RunReport[];
  readonly processes: readonly ProcessOverview[];
  readonly silent: readonly number[];
}

/** Its overview, of a whole report. */
export function overviewOf({ cluster, runs, processes, silent }: ClusterReport): OverviewReport {
  return { cluster, runs, processes: processes.map(processOverview), silent };
}

function processOverview(report: ProcessReport): ProcessOverview {
  const { actors, credits: _credits, tiers: _tiers, ...rest } = report;
  const { shards: _shards, readers: _readers, ...own } = rest;
  return { ...own, actors: actorOverview(actors) };
}

function actorOverview({ children, mailbox, ...own }: ActorReport): ActorOverview {
  const shards: Record<string, number> = {};
  const others: ActorOverview[] = [];
  for (const child of children) {
    if (child.actor.startsWith("shard:")) shards[child.state] = (shards[child.state] ?? 0) + 1;
    else others.push(actorOverview(child));
  }
  const counted = Object.keys(shards).length > 0 ? { shards } : {};
  return { ...own, depth: mailbox?.depth ?? 0, children: others, ...counted };
}
