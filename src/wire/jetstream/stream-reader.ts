// Reads the messages of JetStream streams in sequence order, from any sequence on, over a
// connection of its own. The caller keeps its own position: nothing is acknowledged.
//
// Invariants
//   J1. Messages come in sequence order, each once. A gap in the delivery numbers means a lost
//       message: a new consumer then starts at the next wanted sequence.
//   J2. One request fetches at most `bytesMax` bytes; the next follows when these are consumed.
//   J3. If the stream has dropped a wanted message, or another stream has its name, reading fails
//       instead of skipping messages. Messages that were deleted individually from the middle of a
//       stream are skipped.

import {
  AckPolicy,
  type Consumer,
  type ConsumerMessages,
  DeliverPolicy,
  JetStreamApiCodes,
  type JetStreamManager,
  type JsMsg,
  jetstream,
  jetstreamManager,
  RetentionPolicy,
} from "@nats-io/jetstream";
import type { NatsConnection } from "nats";
import {
  InputUnusableError,
  RequestFailedError,
  StreamTrimmedError,
  TransportLostError,
} from "../../errors/errors.ts";
import { type Cancel, type Clock, realClock } from "../../ports/clock.ts";
import { type ConnectOptions, dialNats } from "../transports/nats-transport.ts";

export interface StoredMessage {
  /** Its sequence in the stream, from 1. */
  readonly sequence: number;
  /** When the stream stored it: milliseconds since 1970. */
  readonly storedMs: number;
  /** Valid until the next message is requested. */
  readonly data: Uint8Array;
}

/** The current state of a stream. */
export interface StreamFacts {
  /** When the stream was created: a recreated stream of the same name has other messages. */
  readonly created: string;
  /** Sequences of its oldest and newest messages; for an empty stream `first` > `last`. */
  readonly first: number;
  readonly last: number;
}

/** Which messages to read. */
export interface ReadOptions {
  /** When the stream was created, as `facts` returned it. */
  readonly created: string;
  /** The first sequence. */
  readonly from: number;
  /** The last sequence; undefined: reads all messages, also future ones, until `signal` aborts. */
  readonly until: number | undefined;
  readonly signal: AbortSignal;
}

/** A source of streams, which can be read repeatedly. */
export interface StreamSource {
  facts(stream: string): Promise<StreamFacts>;
  read(stream: string, options: ReadOptions): AsyncGenerator<StoredMessage, void>;
  close(): Promise<void>;
}

/** Most bytes of one fetch. J2 */
const bytesMax = 128 * 2 ** 20;
/** Most messages of one fetch, however small. */
const messagesMax = 1000;
/** Longest wait for one answer of the server. */
const answerMs = 10_000;
/** How long one fetch waits for its first message, before the next fetch. */
const pollMs = 5000;
/** How long the server may be silent before the connection counts as lost. */
const silenceMs = 60_000;
const againMs = 200;
/** Longest wait for the deletion of a consumer. */
const forgetMs = 1000;
/** How long an unused consumer is assumed to exist on the server. */
const idleMs = 120_000;

/**
 * Opens the streams of a server.
 * @throws as `dialNats`; InputUnusableError where the server has no JetStream
 */
export async function openStreamSource(options: ConnectOptions): Promise<StreamSource> {
  const connection = await dialNats(options);
  const address = connection.getServer();
  if (connection.info?.jetstream !== true) {
    await connection.close();
    const message = `The server ${address} has no JetStream: start it with \`-js\``;
    throw new InputUnusableError(address, message);
  }
  return new NatsStreams(connection, address, options.clock ?? realClock);
}

class NatsStreams implements StreamSource {
  readonly #connection: NatsConnection;
  readonly #address: string;
  readonly #clock: Clock;
  #manager: JetStreamManager | undefined;

  constructor(connection: NatsConnection, address: string, clock: Clock) {
    this.#connection = connection;
    this.#address = address;
    this.#clock = clock;
  }

  async facts(stream: string): Promise<StreamFacts> {
    const manager = await this.#managed();
    const { created, config, state } = await manager.streams.info(stream).catch((cause) => {
      throw this.#refusal(stream, cause);
    });
    if (config.retention !== RetentionPolicy.Limits) {
      const why = `has the retention \`${config.retention}\`: it drops what others acknowledge`;
      const message = `Cannot ingest ${stream}: it ${why}; make a stream with the retention limits`;
      throw new InputUnusableError(stream, message);
    }
    return { created, first: Math.max(1, state.first_seq), last: state.last_seq };
  }

  async *read(stream: string, options: ReadOptions): AsyncGenerator<StoredMessage, void> {
    const { created, until, signal } = options;
    const place = { wanted: options.from, delivered: 0, isDone: false };
    let consumer: Consumer | undefined;
    let usedMs = this.#clock.now();
    let silentSinceMs: number | undefined;
    try {
      while (!signal.aborted && !place.isDone && place.wanted <= (until ?? place.wanted)) {
        // The reader was idle so long that the server has dropped the consumer.
        if (this.#clock.now() - usedMs > idleMs) consumer = undefined;
        try {
          if (consumer === undefined) {
            consumer = await this.#consumerFrom(stream, created, place.wanted);
            place.delivered = 0;
            const { num_pending } = await consumer.info(true);
            if (num_pending === 0 && until !== undefined) return;
          }
          for await (const message of this.#batch(consumer, signal)) {
            silentSinceMs = undefined;
            // J1
            if (message.info.deliverySequence !== place.delivered + 1) throw new Error("lost");
            if (message.seq > place.wanted) await this.#checkKept(stream, created, place.wanted);
            if (message.seq > (until ?? message.seq)) return;
            place.delivered++;
            place.wanted = message.seq + 1;
            yield storedOf(message);
            usedMs = this.#clock.now();
            place.isDone = until !== undefined && message.info.pending === 0;
            if (place.isDone) break;
          }
          silentSinceMs = undefined;
          usedMs = this.#clock.now();
        } catch (error) {
          if (signal.aborted) return;
          if (error instanceof InputUnusableError || error instanceof StreamTrimmedError)
            throw error;
          silentSinceMs ??= this.#clock.now();
          if (this.#clock.now() - silentSinceMs > silenceMs) throw this.#lost(error);
          consumer = undefined;
          await new Promise<void>((resolve) => this.#clock.after(againMs, resolve));
        }
      }
    } finally {
      if (silentSinceMs === undefined) await this.#forget(consumer);
    }
  }

  close(): Promise<void> {
    return this.#connection.close();
  }

  async *#batch(consumer: Consumer, signal: AbortSignal): AsyncGenerator<JsMsg, void> {
    const payload = this.#connection.info?.max_payload ?? 2 ** 20;
    const max_messages = Math.max(1, Math.min(messagesMax, Math.floor(bytesMax / payload))); // J2
    const batch: ConsumerMessages = await consumer.fetch({ max_messages, expires: pollMs });
    const stop = () => batch.stop();
    signal.addEventListener("abort", stop);
    // The client library waits for ever if the connection is lost.
    let isLate = false;
    const watch = () =>
      this.#clock.after(pollMs + answerMs, () => {
        isLate = true;
        stop();
      });
    let cancel = watch();
    try {
      if (signal.aborted) return;
      for await (const message of batch) {
        cancel();
        yield message;
        cancel = watch();
      }
      if (isLate) throw new Error("no answer");
    } finally {
      cancel();
      signal.removeEventListener("abort", stop);
      stop();
    }
  }

  /** Creates a consumer that JetStream removes when unused. @throws InputUnusableError */
  async #consumerFrom(stream: string, created: string, from: number): Promise<Consumer> {
    await this.#connection.flush(); // Fails immediately if the connection is lost.
    const manager = await this.#managed();
    await this.#checkKept(stream, created, from);
    const { name } = await manager.consumers
      .add(stream, {
        ack_policy: AckPolicy.None,
        deliver_policy: DeliverPolicy.StartSequence,
        opt_start_seq: from,
        mem_storage: true,
        inactive_threshold: 2 * idleMs * 1e6,
      })
      .catch((cause) => {
        throw this.#refusal(stream, cause);
      });
    return jetstream(this.#connection, { timeout: answerMs }).consumers.get(stream, name);
  }

  /** Deletes the consumer now, instead of waiting for JetStream to remove it. */
  async #forget(consumer: Consumer | undefined): Promise<void> {
    if (consumer === undefined || this.#connection.isClosed()) return;
    let cancel: Cancel = () => {};
    const late = new Promise<void>((resolve) => {
      cancel = this.#clock.after(forgetMs, resolve);
    });
    await Promise.race([consumer.delete().catch(() => false), late]);
    cancel();
  }

  /** J3. @throws StreamTrimmedError, InputUnusableError */
  async #checkKept(stream: string, created: string, wanted: number): Promise<void> {
    const { created: now, first } = await this.facts(stream);
    if (now !== created) {
      const message = `The stream ${stream} was created again while it was read: it has other messages`;
      throw new InputUnusableError(stream, message);
    }
    if (first > wanted) throw new StreamTrimmedError(stream, wanted, first);
  }

  /** The error for a stream that cannot be read. */
  #refusal(stream: string, cause: unknown): InputUnusableError | RequestFailedError {
    const code = cause instanceof Error && "code" in cause ? cause.code : undefined;
    if (code !== JetStreamApiCodes.StreamNotFound) {
      const why = cause instanceof Error ? cause.message : String(cause);
      return new RequestFailedError(`the stream ${stream}`, why, { cause });
    }
    const message = `The server ${this.#address} has no stream ${stream}`;
    return new InputUnusableError(stream, message, { cause });
  }

  #lost(cause: unknown): TransportLostError {
    const why = cause instanceof Error ? cause.message : String(cause);
    return new TransportLostError(this.#address, `silent for ${silenceMs} ms (${why})`, { cause });
  }

  async #managed(): Promise<JetStreamManager> {
    const options = { timeout: answerMs, checkAPI: false };
    this.#manager ??= await jetstreamManager(this.#connection, options);
    return this.#manager;
  }
}

function storedOf(message: JsMsg): StoredMessage {
  const storedMs = Number(message.timestampNanos / 1_000_000n);
  return { sequence: message.seq, storedMs, data: message.data };
}
