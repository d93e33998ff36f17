// Ingests JetStream streams, or sharded logs, from a NATS server.

import { type Credentials, openStreamSource } from "../../../internal.ts";
import { type IngestReport, type IngestRunOptions, ingestStreams } from "./ingest.ts";
import { type IngestJoinOptions, resolveIngest } from "./ingest-options.ts";
import { ingestShards } from "./ingest-shards.ts";

export interface IngestOptions extends IngestJoinOptions, IngestRunOptions, Credentials {
  /** Address of the server, as `nats://127.0.0.1:4222`. */
  readonly nats: string;
  /** If set, `features` and `events` name logs with this many shards instead of streams. */
  readonly shards?: number | undefined;
}

/** Longest wait for the first connection. */
const connectMs = 10_000;

/**
 * Joins a stream of features with a stream of events, both in JetStream, into a table of Parquet
 * files: from the messages that the streams have now or, with `follow`, continuously.
 * @throws as `ingestStreams`; TransportLostError where the server cannot be reached;
 * InputUnusableError where it has no such streams
 */
export async function ingest(options: IngestOptions): Promise<IngestReport> {
  const {
    nats,
    shards,
    follow,
    signal,
    onProgress,
    disk,
    clock,
    token,
    user,
    pass,
    nkey,
    creds,
    tls,
    ...join
  } = options;
  resolveIngest(join); // Reject bad options before connecting.
  const credentials = { token, user, pass, nkey, creds, tls };
  const source = await openStreamSource({
    ...credentials,
    servers: nats,
    name: "osiris ingest",
    deadlineMs: connectMs,
  });
  try {
    const run = { follow, signal, onProgress, disk, clock };
    if (shards === undefined) return await ingestStreams(source, join, run);
    return await ingestShards(source, { ...join, shards }, run);
  } finally {
    await source.close();
  }
}
