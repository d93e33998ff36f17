// Ingests the shards of two logs (log-shards.ts): one ingestion per shard, all concurrent, each
// into a partition of one table. A request and its events are in the same shard, so shards are
// joined independently. Each shard has its own position, and its output is a function of its two
// streams alone.
//
//   impressions-0, clicks-0  ──▶  clicks/shard=0/
//   impressions-1, clicks-1  ──▶  clicks/shard=1/

import { join } from "node:path";
import { expected, type StreamSource } from "../../../internal.ts";
import {
  type IngestProgress,
  type IngestReport,
  type IngestRunOptions,
  ingestStreams,
} from "./ingest.ts";
import { type IngestJoinOptions, resolveIngest } from "./ingest-options.ts";
import { logShard, logShardsMax } from "./log-shards.ts";
import type { IngestCounts } from "./position.ts";

/**
 * Ingests `shards` shards of the logs that `features` and `events` name. The first failure stops
 * all of them; the rows that each has read are written.
 * @throws as `ingestStreams`
 */
export async function ingestShards(
  source: StreamSource,
  { shards, ...options }: IngestJoinOptions & { readonly shards: number },
  run: IngestRunOptions = {},
): Promise<IngestReport> {
  const isCount = Number.isInteger(shards) && shards >= 1 && shards <= logShardsMax;
  if (!isCount) throw expected("shards", `an integer from 1 to ${logShardsMax}`, shards);
  const { out, stateBytes, quarantineMax } = resolveIngest(options);
  const inner = new AbortController();
  const stop = () => inner.abort();
  run.signal?.addEventListener("abort", stop);
  if (run.signal?.aborted) stop();
  const shares = new Map<number, IngestProgress>();
  const ingestOne = (shard: number): Promise<IngestReport> => {
    const directory = `shard=${shard}`;
    const onProgress = (progress: IngestProgress) => {
      const finished = progress.finished.map((file) => join(directory, file));
      shares.set(shard, progress);
      run.onProgress?.({ ...summed([...shares.values()]), finished });
    };
    const shardOptions = {
      ...options,
      features: logShard(options.features, shard).stream,
      events: logShard(options.events, shard).stream,
      out: join(out, directory),
      stateBytes: Math.max(1024, Math.floor(stateBytes / shards)),
    };
    return ingestStreams(source, shardOptions, { ...run, signal: inner.signal, onProgress }).catch(
      (error) => {
        stop();
        throw error;
      },
    );
  };
  try {
    const ended = await Promise.allSettled(
      Array.from({ length: shards }, (_, shard) => ingestOne(shard)),
    );
    const reports = ended.map((one) => {
      if (one.status === "rejected") throw one.reason;
      return one.value;
    });
    return together(out, reports, quarantineMax);
  } finally {
    run.signal?.removeEventListener("abort", stop);
  }
}

function summed(shares: readonly IngestProgress[]): Omit<IngestProgress, "finished"> {
  const sumOf = (key: "read" | "total" | "rows") => shares.reduce((sum, one) => sum + one[key], 0);
  return { read: sumOf("read"), total: sumOf("total"), rows: sumOf("rows") };
}

/** Merges the reports of all shards. */
function together(
  directory: string,
  reports: readonly IngestReport[],
  keptMax: number,
): IngestReport {
  const sumOf = (numberOf: (report: IngestReport) => number) => {
    return reports.reduce((sum, report) => sum + numberOf(report), 0);
  };
  const names = Object.keys(reports[0]?.counts ?? {}) as (keyof IngestCounts)[];
  const counts = names.map((name) => [name, sumOf((report) => report.counts[name])]);
  return {
    directory,
    files: reports.flatMap(({ files }, shard) => files.map((file) => join(`shard=${shard}`, file))),
    openRows: sumOf(({ openRows }) => openRows),
    waiting: sumOf(({ waiting }) => waiting),
    // `names` are all keys of the counts, so the object is complete.
    counts: Object.fromEntries(counts) as unknown as IngestCounts,
    quarantine: {
      count: sumOf(({ quarantine }) => quarantine.count),
      kept: reports.flatMap(({ quarantine }) => quarantine.kept).slice(0, keptMax),
    },
    unknownNames: [...new Set(reports.flatMap(({ unknownNames }) => unknownNames))],
    stopped: reports.some(({ stopped }) => stopped),
  };
}
