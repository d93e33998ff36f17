// The mirror of a cluster in JetStream, over a connection of its own: events of runs in streams,
// the queue in a key-value bucket. JetStream may lose data that it acknowledged (law 6): the mirror
// is only a copy, and callers write missing data again.
//
//   stream osiris-events-<cluster>            osiris.<cluster>.stream.<run>
//   stream osiris-events-<tenant>@<cluster>   osiris.<cluster>.stream.<tenant>.<run>
//   bucket osiris-queue-<cluster>             a key for each run
//
// Invariants
//   M1. A change is stored only if the change that its writer saw last is still the newest
//       (compare-and-set): of two concurrent writers one is refused, and no change is stored twice.

import { setTimeout as sleep } from "node:timers/promises";
import {
  DiscardPolicy,
  JetStreamApiCodes,
  type JetStreamClient,
  type JetStreamManager,
  jetstream,
  jetstreamManager,
  RetentionPolicy,
  StorageType,
  type StreamConfig,
} from "@nats-io/jetstream";
import { type KV, Kvm } from "@nats-io/kv";
import { headers as emptyHeaders, type NatsConnection } from "nats";
import { RequestFailedError } from "../../errors/errors.ts";
import { eventStream, queueBucket, streamPattern } from "../messages/subjects.ts";
import { type ConnectOptions, dialNats } from "../transports/nats-transport.ts";

/** Limits of a stream; beyond them, its oldest messages are removed. */
export interface StreamLimits {
  readonly days: number;
  /** Bytes per stream: of runs without a tenant, and of each tenant. */
  readonly bytes: number;
  /** Messages per run. */
  readonly messages: number;
  /** Servers of a clustered JetStream that hold each message. */
  readonly replicas: number;
}

export interface MirrorOptions extends ConnectOptions {
  readonly cluster: string;
  readonly limits: StreamLimits;
  /** Longest wait for one answer. */
  readonly timeoutMs: number;
}

/** An entry of the queue, and the count of its changes. */
export interface Registered {
  readonly value: Uint8Array;
  readonly revision: number;
}

/** A message in a stream. */
export interface Streamed {
  /** Its sequence in the stream, from 1. */
  readonly place: number;
  readonly payload: Uint8Array;
}

/**
 * Opens the mirror of a cluster. Undefined where the server has no JetStream.
 * @throws as `connectNats`
 */
export async function openNatsMirror(options: MirrorOptions): Promise<NatsMirror | undefined> {
  const connection = await dialNats(options);
  if (connection.info?.jetstream === true) return new NatsMirror(connection, options);
  await connection.close();
  return undefined;
}

const dayMs = 24 * 60 * 60 * 1000;
const nanosecondsPerMs = 1e6;
/** How long JetStream remembers message ids, to drop repeated messages. */
const repeatedMs = 120_000;

export class NatsMirror {
  readonly #connection: NatsConnection;
  readonly #options: MirrorOptions;
  readonly #stream: JetStreamClient;
  #manager: JetStreamManager | undefined;
  #bucket: KV | undefined;

  constructor(connection: NatsConnection, options: MirrorOptions) {
    this.#connection = connection;
    this.#options = options;
    this.#stream = jetstream(connection, { timeout: options.timeoutMs });
  }

  /** Bytes of the largest message, without its headers. */
  get messageBytesMax(): number {
    return (this.#connection.info?.max_payload ?? 1024 * 1024) - headerBytes;
  }

  /**
   * Creates the stream of a tenant, or of runs without a tenant, and a consumer for each user.
   * Resolves to whether the stream has lost no message so far.
   */
  async openStream(tenant: string | undefined, users: readonly string[]): Promise<boolean> {
    const manager = await this.#managed();
    const wanted = this.#configOf(tenant);
    const { name, max_age, max_bytes } = wanted;
    let info = await manager.streams.info(name).catch((error: unknown) => {
      if (codeOf(error) === JetStreamApiCodes.StreamNotFound) return undefined;
      throw error;
    });
    if (info === undefined) info = await manager.streams.add(wanted);
    else if (info.config.max_age !== max_age || info.config.max_bytes !== max_bytes) {
      const { duplicate_window } = wanted;
      info = await manager.streams.update(name, { max_age, max_bytes, duplicate_window });
    }
    for (const durable_name of users) {
      await manager.consumers.add(name, { durable_name, ack_policy: "explicit" });
    }
    return info.state.first_seq <= 1;
  }

  /** The newest message on a subject of an open stream. */
  async last(tenant: string | undefined, subject: string): Promise<Streamed | undefined> {
    const manager = await this.#managed();
    const stream = eventStream(this.#options.cluster, tenant);
    const found = await manager.direct.getMessage(stream, { last_by_subj: subject });
    return found === null ? undefined : { place: found.seq, payload: found.data };
  }

  /**
   * Appends a message if the last one of its subject is at place `after`; 0: if there is none.
   * Resolves to its place; undefined: another message is the last, or this one is a repetition. M1
   */
  async append(
    subject: string,
    payload: Uint8Array,
    { id, after }: { readonly id: string; readonly after: number },
  ): Promise<number | undefined> {
    const headers = emptyHeaders();
    headers.set("content-type", "application/json");
    const expect = { lastSubjectSequence: after };
    try {
      const { seq, duplicate } = await this.#stream.publish(subject, payload, {
        headers,
        expect,
        msgID: id,
        timeout: this.#options.timeoutMs,
      });
      return duplicate ? undefined : seq;
    } catch (error) {
      if (isTooLate(error)) return undefined;
      throw error;
    }
  }

  /** All entries of the queue, by run. */
  async queued(): Promise<ReadonlyMap<string, Registered>> {
    return wholeHistory(await this.#queue());
  }

  /**
   * Sets the entry of a run if its revision is still `revision`; 0: if there is none. Resolves to
   * the new revision, or to undefined where the revision is another. M1
   */
  async compareAndSet(
    run: string,
    value: Uint8Array,
    revision: number,
  ): Promise<number | undefined> {
    const bucket = await this.#queue();
    try {
      return await (revision === 0
        ? bucket.create(run, value)
        : bucket.update(run, value, revision, this.#options.timeoutMs));
    } catch (error) {
      if (isTooLate(error)) return undefined;
      throw error;
    }
  }

  /** The current entry of a run. */
  async queuedAs(run: string): Promise<Registered | undefined> {
    const entry = await (await this.#queue()).get(run);
    if (entry === null || entry.operation !== "PUT") return undefined;
    return { value: entry.value, revision: entry.revision };
  }

  /** Purges the entry without leaving a delete marker, as markers would never be removed. */
  async remove(run: string): Promise<void> {
    await this.#queue();
    const bucket = queueBucket(this.#options.cluster);
    const filter = `$KV.${bucket}.${run}`;
    await (await this.#managed()).streams.purge(`KV_${bucket}`, { filter });
  }

  /**
   * Drops cached handles after a reconnect, because a restarted server may have lost streams and
   * bucket.
   */
  forget(): void {
    this.#manager = undefined;
    this.#bucket = undefined;
  }

  /** Calls `tell` after each reconnection, until the connection is closed. */
  async watch(tell: () => void): Promise<void> {
    for await (const { type } of this.#connection.status()) if (type === "reconnect") tell();
  }

  close(): Promise<void> {
    return this.#connection.close();
  }

  async #managed(): Promise<JetStreamManager> {
    const { timeoutMs: timeout } = this.#options;
    this.#manager ??= await jetstreamManager(this.#connection, { timeout, checkAPI: false });
    return this.#manager;
  }

  async #queue(): Promise<KV> {
    const { cluster, timeoutMs: timeout, limits } = this.#options;
    const { replicas } = limits;
    this.#bucket ??= await new Kvm(this.#stream).create(queueBucket(cluster), {
      history: 1,
      timeout,
      replicas,
    });
    return this.#bucket;
  }

  #configOf(tenant: string | undefined) {
    const { cluster, limits } = this.#options;
    const ageMs = limits.days * dayMs;
    return {
      name: eventStream(cluster, tenant),
      subjects: [streamPattern(cluster, tenant)],
      retention: RetentionPolicy.Limits,
      discard: DiscardPolicy.Old,
      storage: StorageType.File,
      max_age: ageMs * nanosecondsPerMs,
      max_bytes: limits.bytes,
      max_msgs_per_subject: limits.messages,
      duplicate_window: Math.min(ageMs, repeatedMs) * nanosecondsPerMs,
      num_replicas: limits.replicas,
      allow_direct: true,
    } satisfies Partial<StreamConfig>;
  }
}

/** Most reads of a bucket, before its history counts as unreadable. */
const readsMax = 20;
const againMs = 100;

/**
 * All entries of a bucket. The client library ends a history at the server's first heartbeat, which
 * comes before the last entry if the server or this process is busy: such a history is incomplete
 * and is read again. @throws RequestFailedError if no read is complete
 */
export async function wholeHistory(
  bucket: Pick<KV, "history" | "status">,
  wait: (ms: number) => Promise<unknown> = sleep,
): Promise<ReadonlyMap<string, Registered>> {
  for (let reads = 1; ; reads++) {
    const { values, bucket: name } = await bucket.status();
    const entries = new Map<string, Registered>();
    let left: number | undefined = values;
    for await (const { key, value, revision, operation, delta } of await bucket.history()) {
      if (operation === "PUT") entries.set(key, { value, revision });
      left = delta;
    }
    if (left === 0) return entries;
    if (reads === readsMax) {
      const why = `the bucket was read ${reads} times, and each time ended before its last entry`;
      throw new RequestFailedError(`the bucket ${name}`, why);
    }
    await wait(againMs);
  }
}

/** Upper bound for the headers of a mirrored message. */
const headerBytes = 1024;

function codeOf(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}

function isTooLate(error: unknown): boolean {
  const code = codeOf(error);
  return (
    code === JetStreamApiCodes.StreamWrongLastSequence ||
    code === JetStreamApiCodes.StreamWrongLastSequenceUnknown
  );
}
