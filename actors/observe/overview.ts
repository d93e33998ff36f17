// The overview of a cluster, for repeated display: without the parts that grow with the tables.
// Shards are counted per device instead of listed.

import type { ClusterReport, RunReport } from "./cluster-report.ts";
import type { ActorReport, ProcessReport } from "./process-report.ts";

export interface ActorOverview {
  readonly actor: string;
  readonly run?: string;
  readonly generation?: number;
  readonly state: string;
  /** Pending work. */
  readonly depth: number;
  readonly children: readonly ActorOverview[];
  /** Number of its shards by state; left out: it has none. */
  readonly shards?: Readonly<Record<string, number>>;
}

export interface ProcessOverview
  extends Omit<ProcessReport, "actors" | "credits" | "links" | "tiers" | "shards" | "readers"> {
  readonly actors: ActorOverview;
}

/** The reply of `inspect.overview`. */
export interface OverviewReport {
  readonly cluster: string;
  readonly runs: readonly RunReport[];
  readonly processes: readonly ProcessOverview[];
  readonly unresponsive: readonly number[];
}

/** Extracts the overview from a complete report. */
export function overviewOf({
  cluster,
  runs,
  processes,
  unresponsive,
}: ClusterReport): OverviewReport {
  return { cluster, runs, processes: processes.map(processOverview), unresponsive };
}

function processOverview(report: ProcessReport): ProcessOverview {
  const { actors, credits: _credits, tiers: _tiers, ...rest } = report;
  const { shards: _shards, readers: _readers, links: _links, ...own } = rest;
  return { ...own, actors: actorOverview(actors) };
}

function actorOverview({ children, mailbox, ...own }: ActorReport): ActorOverview {
  const others = children.filter(({ actor }) => !actor.startsWith("shard:"));
  return { ...own, depth: mailbox?.depth ?? 0, children: others.map(actorOverview) };
}
