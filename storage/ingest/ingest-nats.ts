// Ingests streams, or shards of logs, of a server.

import { openStreamSource } from "../../src/wire/jetstream/stream-reader.ts";
import type { Credentials } from "../../src/wire/transports/credentials.ts";
import { type IngestReport, type IngestRunOptions, ingestStreams } from "./ingest.ts";
import { type IngestJoinOptions, resolveIngest } from "./ingest-options.ts";
import { ingestShards } from "./ingest-shards.ts";

/** Options of `ingest`. */
export interface IngestOptions extends IngestJoinOptions, IngestRunOptions, Credentials {
  /** Address of the server, as `nats://127.0.0.1:4222`. */
  readonly nats: string;
  /** So many shards of logs that `features` and `events` name, instead of these streams. */
  readonly shards?: number | undefined;
}

/** Longest wait for the first connection. */
const connectMs = 10_000;

/**
 * Joins a stream of features with a stream of events, both of JetStream, into a table of Parquet
 * files: the rows of what both streams have now, or, with `follow`, of what comes.
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
  resolveIngest(join); // Before anything is asked for.
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
