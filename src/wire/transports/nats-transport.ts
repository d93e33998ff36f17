// The transport over NATS: the embedded broker or a real nats-server, by URL.
//
// The client outlives the broker: it reconnects for ever and restores its subscriptions.
//
// Invariants
//   N1. While the connection is lost, frames are dropped and requests fail at once.
//   N2. At most `pendingBytesMax` bytes are in flight to the broker: bytes that it has not
//       confirmed with a PONG. A frame beyond the limit is dropped and reported to `onError`.
//   N3. Errors of receivers and listeners go to `onError`, and the client reads on.
//   N4. The payload given to `publish` is copied unless it is lent: the caller may overwrite it.
//   N5. A frame with a wrong checksum was not received: it counts as lost.

import {
  type ConnectionOptions,
  connect,
  headers as emptyHeaders,
  errors,
  type Msg,
  type NatsConnection,
  type Status,
} from "nats";
import {
  FrameCorruptError,
  FrameTooLargeError,
  NotPermittedError,
  RequestFailedError,
  TransportFullError,
  TransportLostError,
} from "../../errors/errors.ts";
import { expected } from "../../ports/check-options.ts";
import { type Clock, realClock } from "../../ports/clock.ts";
import { checksumBytes, withChecksum } from "../messages/checksum.ts";
import { checkHeaders, headerBytesOf } from "../messages/headers.ts";
import { isPattern, isSubject } from "../messages/subjects.ts";
import type {
  Frame,
  FrameTransport,
  PublishOptions,
  RequestOptions,
  SubscribeOptions,
  Subscription,
  Transport,
  TransportStatus,
} from "../messages/transport.ts";
import { withChunks } from "./chunked-transport.ts";
import { authenticationOf, type Credentials } from "./credentials.ts";
import { frameOf, isStatus } from "./nats-frames.ts";
import { addressOf, byReachability } from "./server-address.ts";

export interface ConnectOptions extends Credentials {
  /** URLs of one cluster: `nats://127.0.0.1:4222`, `nats://token@host`, `tls://host`. */
  readonly servers: string | readonly string[];
  /** The client's name, for people and for the chaos harness. */
  readonly name: string;
  /** Longest wait for the first connection. */
  readonly deadlineMs: number;
  /** Called with errors of receivers and complaints of the broker. @default thrown, uncaught */
  readonly onError?: (error: unknown) => void;
  /** Most bytes in flight to the broker. @default 64 MiB */
  readonly pendingBytesMax?: number;
  /** @default realClock */
  readonly clock?: Clock;
}

/**
 * Connects to a broker.
 * @throws TransportLostError after the deadline, or if the broker refuses the client
 * @throws InvalidOptionError, InputUnusableError where the credentials are unusable
 */
export async function connectNats(options: ConnectOptions): Promise<Transport> {
  const connection = await dialNats(options);
  const transport = new NatsTransport(connection, addressOf(serversOf(options)), options);
  const { clock = realClock, onError = throwUncaught } = options;
  return withChunks(transport, { clock, onError });
}

/** Connects the bare NATS client, which outlives the broker, too. @throws as `connectNats` */
export async function dialNats(options: ConnectOptions): Promise<NatsConnection> {
  const servers = serversOf(options);
  if (servers.length === 0) throw expected("servers", "a list of >= 1 addresses", servers);
  return await connectWithin(options, servers, {
    ...authenticationOf(servers, options),
    name: options.name,
    ...survival,
  });
}

function serversOf({ servers }: ConnectOptions): string[] {
  return typeof servers === "string" ? [servers] : [...servers];
}

// A lost broker is noticed within 9 s even if its socket stays open, and dialled 5 times a second.
// The jitter keeps many clients from dialling at once. A broker may refuse a client for a moment.
const survival = {
  reconnect: true,
  maxReconnectAttempts: -1,
  reconnectTimeWait: 200,
  reconnectJitter: 100,
  pingInterval: 3000,
  maxPingOut: 2,
  ignoreAuthErrorAbort: true,
  noRandomize: true,
  waitOnFirstConnect: false, // It would wait for ever: `connectWithin` has the deadline.
  noAsyncTraces: true,
} satisfies ConnectionOptions;

/**
 * Longest handshake of one dial, or a fifth of the deadline if that is more: a broker that accepts
 * and then stays silent is skipped.
 */
const handshakeMs = 2000;
const redialMs = 200;

async function connectWithin(
  { deadlineMs, clock = realClock }: ConnectOptions,
  servers: readonly string[],
  settings: ConnectionOptions,
): Promise<NatsConnection> {
  const lost = (why: string, cause: unknown) =>
    new TransportLostError(addressOf(servers), why, { cause });
  const untilMs = clock.now() + deadlineMs;
  let isRunning = false; // The client library does not report a refusal such as a connection limit.
  for (;;) {
    const longest = Math.max(handshakeMs, deadlineMs / 5);
    const timeout = Math.min(Math.max(1, untilMs - clock.now()), longest);
    try {
      // The client would hang on a silent server, so probe the servers first.
      const ordered = await byReachability(servers, timeout, clock);
      isRunning = true;
      return await connect({ ...settings, servers: ordered, timeout });
    } catch (cause) {
      // A slow answer of a busy machine is no refusal, and is retried.
      const isSlow = cause instanceof Error && /authentication timeout/i.test(cause.message);
      const isRefused = cause instanceof errors.AuthorizationError && !isSlow;
      if (isRefused) throw lost("it refused the credentials", cause);
      if (clock.now() + redialMs >= untilMs) {
        const last = cause instanceof Error ? cause.message : String(cause);
        const log = "its log says why, as a limit of connections";
        const advice = isRunning ? log : "is it running? `osiris up` starts one";
        throw lost(`no connection within ${deadlineMs} ms (${last}); ${advice}`, cause);
      }
    }
    await new Promise<void>((resolve) => clock.after(redialMs, resolve));
  }
}

/** Longest wait of `close` for the broker to confirm pending frames. */
const closeMs = 1000;

class NatsTransport implements FrameTransport {
  readonly address: string;
  readonly #connection: NatsConnection;
  readonly #clock: Clock;
  readonly #pendingBytesMax: number;
  readonly #onError: (error: unknown) => void;
  readonly #listeners = new Set<(status: TransportStatus) => void>();
  #status: TransportStatus = "connected";
  readonly status = (): TransportStatus => this.#status;
  #payloadBytesMax: number;
  #sentBytes = 0;
  #confirmedBytes = 0;
  #probedBytes = 0;
  #closing: Promise<void> | undefined;

  constructor(connection: NatsConnection, address: string, options: ConnectOptions) {
    this.address = address;
    this.#connection = connection;
    this.#clock = options.clock ?? realClock;
    this.#pendingBytesMax = options.pendingBytesMax ?? 64 * 1024 * 1024;
    this.#onError = options.onError ?? throwUncaught;
    this.#payloadBytesMax = connection.info?.max_payload ?? 1024 * 1024;
    this.#watch().catch(this.#onError);
  }

  get frameBytesMax(): number {
    // A broker that replaced another may have another limit.
    this.#payloadBytesMax = this.#connection.info?.max_payload ?? this.#payloadBytesMax;
    return this.#payloadBytesMax - checksumBytes;
  }

  publish(subject: string, payload: Uint8Array, options: PublishOptions = {}): void {
    const { reply } = options;
    if (!isSubject(subject)) throw expected("subject", "a subject of NATS", subject);
    if (reply !== undefined && !isSubject(reply)) throw expected("reply", "a subject", reply);
    const headers = this.#admit(payload, options);
    if (this.#status !== "connected" || this.#connection.isClosed()) return; // N1
    if (!this.#reserve(payload.length)) return;
    const bytes = options.isLent === true ? payload : new Uint8Array(payload); // N4
    this.#connection.publish(subject, bytes, {
      ...headers,
      ...(reply === undefined ? {} : { reply }),
    });
  }

  subscribe(
    subject: string,
    receive: (frame: Frame) => void,
    { onCorrupt, ...options }: SubscribeOptions = {},
  ): Subscription {
    if (!isPattern(subject)) throw expected("subject", "a subject or a pattern of NATS", subject);
    if (this.#status === "closed") throw this.#lost();
    const subscription = this.#connection.subscribe(subject, {
      ...options,
      callback: (error, message) => {
        try {
          if (error !== null) throw error;
          const frame = frameOf(message);
          if (!isStatus(message)) receive(frame);
        } catch (thrown) {
          if (thrown instanceof FrameCorruptError) onCorrupt?.();
          this.#onError(thrown); // N3
        }
      },
    });
    return {
      unsubscribe: () => {
        if (!subscription.isClosed() && !this.#connection.isClosed()) subscription.unsubscribe();
      },
    };
  }

  async request(subject: string, payload: Uint8Array, options: RequestOptions): Promise<Frame> {
    if (!isSubject(subject)) throw expected("subject", "a subject of NATS", subject);
    const headers = this.#admit(payload, options);
    if (this.#status !== "connected") {
      throw new RequestFailedError(subject, "not connected", { cause: this.#lost() }); // N1
    }
    if (!this.#reserve(payload.length)) {
      throw new RequestFailedError(subject, "too many bytes are on their way to the broker");
    }
    const timeout = Math.max(1, Math.ceil(options.deadlineMs));
    try {
      const answers = await this.#connection.requestMany(subject, new Uint8Array(payload), {
        strategy: "timer",
        maxWait: timeout,
        ...headers,
      });
      const { collect = (frame) => frame } = options;
      for await (const message of answers) {
        const { reply: _, ...frame } = frameOf(message);
        const answer = collect(frame);
        if (answer !== undefined) return answer;
      }
      throw new errors.TimeoutError();
    } catch (cause) {
      if (innerOf(cause) instanceof errors.PermissionViolationError) {
        throw new NotPermittedError(subject, { cause });
      }
      throw new RequestFailedError(subject, reasonOf(cause, timeout), { cause });
    }
  }

  async flush(): Promise<void> {
    if (this.#status !== "connected") throw this.#lost();
    const upToBytes = this.#sentBytes;
    try {
      await this.#connection.flush();
    } catch (cause) {
      throw new TransportLostError(this.address, "the connection was lost", { cause });
    }
    this.#confirmedBytes = Math.max(this.#confirmedBytes, upToBytes);
  }

  onStatus(tell: (status: TransportStatus) => void): Subscription {
    this.#listeners.add(tell);
    return { unsubscribe: () => this.#listeners.delete(tell) };
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    if (this.#status === "connected") {
      let cancel: () => void = () => undefined;
      const late = new Promise<void>((resolve) => {
        cancel = this.#clock.after(closeMs, resolve);
      });
      await Promise.race([this.#connection.flush().catch(() => undefined), late]);
      cancel();
    }
    await this.#connection.close();
    this.#tell("closed");
    this.#listeners.clear();
  }

  /** The checked headers of a frame. @throws FrameTooLargeError, InvalidOptionError */
  #admit(payload: Uint8Array, options: PublishOptions): Pick<Msg, "headers"> {
    const checked = checkHeaders(options.headers);
    const frameBytes = payload.length + headerBytesOf(options.headers);
    if (frameBytes > this.frameBytesMax) {
      throw new FrameTooLargeError(frameBytes, this.frameBytesMax);
    }
    const headers = emptyHeaders();
    for (const [name, value] of Object.entries(withChecksum(payload, checked))) {
      headers.append(name, value);
    }
    return { headers };
  }

  pending() {
    return { bytes: this.#sentBytes - this.#confirmedBytes, bytesMax: this.#pendingBytesMax };
  }

  /** Counts bytes as in flight. Returns false if they are too many. N2 */
  #reserve(bytes: number): boolean {
    const { bytes: pendingBytes } = this.pending();
    if (pendingBytes + bytes > this.#pendingBytesMax) {
      this.#onError(new TransportFullError(this.address, pendingBytes, this.#pendingBytesMax));
      return false;
    }
    this.#sentBytes += bytes;
    if (this.#sentBytes - this.#probedBytes > this.#pendingBytesMax / 8) {
      this.#probedBytes = this.#sentBytes;
      // Flush after this frame was handed over. A lost connection confirms in `#watch`.
      queueMicrotask(() => void this.flush().catch(() => undefined));
    }
    return true;
  }

  /** Maps the client's status events to `TransportStatus`, until the client is closed. */
  async #watch(): Promise<void> {
    for await (const event of this.#connection.status()) this.#see(event);
    this.#tell("closed");
  }

  #see(event: Status): void {
    switch (event.type) {
      case "disconnect":
        this.#confirmedBytes = this.#sentBytes; // The client has dropped all pending bytes.
        this.#tell("lost");
        return;
      case "reconnect":
        this.#tell("connected");
        return;
      case "close":
        this.#tell("closed");
        return;
      case "error":
        this.#onError(
          new TransportLostError(this.address, event.error.message, { cause: event.error }),
        );
        return;
      default:
        return; // Pings, dials and cluster updates.
    }
  }

  #tell(status: TransportStatus): void {
    if (this.#status === status || this.#status === "closed") return;
    this.#status = status;
    for (const tell of [...this.#listeners]) {
      try {
        tell(status);
      } catch (thrown) {
        this.#onError(thrown); // N3
      }
    }
  }

  #lost(): TransportLostError {
    const reason = this.#status === "closed" ? "the client was closed" : "the connection was lost";
    return new TransportLostError(this.address, reason);
  }
}

function reasonOf(cause: unknown, timeoutMs: number): string {
  const inner = innerOf(cause);
  if (inner instanceof errors.NoRespondersError) return "nobody listens";
  if (inner instanceof errors.TimeoutError) return `none within ${timeoutMs} ms`;
  return inner instanceof Error ? inner.message : String(inner);
}

/** The cause of a failed request, which the client wraps in another error. */
function innerOf(cause: unknown): unknown {
  return cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause;
}

function throwUncaught(error: unknown): void {
  queueMicrotask(() => {
    throw error;
  });
}
