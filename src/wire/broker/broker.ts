// The embedded broker: a NATS server for one machine, in this thread. It carries frames between any
// NATS clients, stores nothing, and listens on a loopback address only.
//
// Invariants
//   E1. A frame goes to every matching plain subscription, and to one of each queue group.
//   E2. The frames of one publisher on one subject reach a subscriber in publishing order, except
//       where `intercept` says otherwise.
//   E3. After `close` no socket and no timer is left.

import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { createServer, type Server, type Socket } from "node:net";
import { InputUnusableError } from "../../errors/errors.ts";
import { expected } from "../../ports/check-options.ts";
import { type Cancel, type Clock, realClock } from "../../ports/clock.ts";
import { guarded } from "../http/answering.ts";
import { SubjectRouter } from "../transports/subject-router.ts";
import type { Login } from "./hello.ts";
import type { Publication } from "./parser.ts";
import {
  type BrokerSubscription,
  type ConnectionReport,
  Session,
  type SessionHost,
  type SessionLimits,
} from "./session.ts";

/** Clients that may connect: clients with the token, with the user and password, or any client. */
export type BrokerAuth =
  | { readonly token: string }
  | { readonly user: string; readonly pass: string }
  | "open";

/** The fault that the chaos harness applies to a frame on its way to one client. */
export type Verdict =
  | "deliver"
  | "drop"
  | "duplicate"
  /** One bit of the payload is flipped. */
  | "corrupt"
  /** The frame arrives after the next one of the same subscription, or soon if there is none. */
  | "reorder"
  | { readonly delayMs: number };

/** The options that can be passed to a thread. */
export interface BrokerSettings {
  /** A loopback address. @default "127.0.0.1" */
  readonly host?: string;
  /** 0 takes any free port. @default 0 */
  readonly port?: number;
  /** @default a new random token */
  readonly auth?: BrokerAuth;
  /** Largest frame, headers and payload. @default 1 MiB, as in nats-server */
  readonly payloadBytesMax?: number;
  /** Bytes that may wait for one client before it is cut. @default 64 MiB */
  readonly pendingBytesMax?: number;
  /** @default 1024 */
  readonly connectionsMax?: number;
  /** Subscriptions of one client. @default 65536 */
  readonly subscriptionsMax?: number;
  /** @default 2000 */
  readonly authTimeoutMs?: number;
  /** Silence after which a client is pinged. @default 20000 */
  readonly pingIntervalMs?: number;
}

export type { ConnectionReport };

export interface BrokerOptions extends BrokerSettings {
  /** @default realClock */
  readonly clock?: Clock;
  /** Called for each frame and receiver, with the clients' own names. @default "deliver" */
  readonly intercept?: (from: string, subject: string, to: string) => Verdict;
}

/** A listening broker. */
export interface Broker extends AsyncDisposable {
  /** `nats://127.0.0.1:41234`, without the token. */
  readonly url: string;
  readonly port: number;
  readonly auth: BrokerAuth;
  /** Names of the connected clients, in the order of connection. */
  clients(): string[];
  /** The connected clients, in the order of connection, with their traffic and subscriptions. */
  connections(): ConnectionReport[];
  /** Disconnects the clients with this name. Returns their number. */
  cut(name: string): number;
  /** Disconnects all clients and ends. Safe to call twice. */
  close(): Promise<void>;
}

/**
 * Starts a broker in this thread.
 * @throws InputUnusableError if it cannot listen, InvalidOptionError
 */
export async function startBroker(options: BrokerOptions = {}): Promise<Broker> {
  const broker = new EmbeddedBroker(options);
  await broker.listen();
  return broker;
}

/** Frames that `intercept` may hold back at one time; further ones are dropped. */
const delayedFramesMax = 65_536;
const longestControlLine = 4096;
/** How long a reordered frame waits for the next one. */
const overtakenMs = 50;

class EmbeddedBroker implements Broker, SessionHost {
  readonly auth: BrokerAuth;
  readonly clock: Clock;
  readonly router = new SubjectRouter<BrokerSubscription>();
  readonly limits: SessionLimits;
  readonly mustLogin: boolean;
  readonly #options: BrokerOptions;
  readonly #host: string;
  readonly #server: Server;
  readonly #sessions = new Set<Session>();
  readonly #sockets = new Set<Socket>();
  readonly #delayed = new Set<Cancel>();
  /** Reordered frames that wait for the next frame, each with the function that sends it anyway. */
  readonly #overtaken = new Map<BrokerSubscription, () => void>();
  readonly #serverId = randomBytes(12).toString("hex");
  #port = 0;
  #clients = 0;
  #closing: Promise<void> | undefined;

  constructor(options: BrokerOptions) {
    this.#host = loopback(options.host ?? "127.0.0.1");
    this.auth = options.auth ?? { token: randomBytes(16).toString("hex") };
    this.mustLogin = this.auth !== "open";
    this.clock = options.clock ?? realClock;
    this.#options = options;
    this.limits = {
      payloadBytesMax: options.payloadBytesMax ?? 1024 * 1024,
      controlLineBytesMax: longestControlLine,
      pendingBytesMax: options.pendingBytesMax ?? 64 * 1024 * 1024,
      subscriptionsMax: options.subscriptionsMax ?? 65_536,
      authTimeoutMs: options.authTimeoutMs ?? 2000,
      pingIntervalMs: options.pingIntervalMs ?? 20_000,
      pingsOutMax: 2,
    };
    const accept = guarded(
      (socket: Socket) => this.#accept(socket),
      (_error, socket) => socket.destroy(),
    );
    this.#server = createServer(accept);
  }

  get port(): number {
    return this.#port;
  }

  get url(): string {
    return `nats://${this.#host.includes(":") ? `[${this.#host}]` : this.#host}:${this.#port}`;
  }

  async listen(): Promise<void> {
    const port = this.#options.port ?? 0;
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", (cause) => {
        const where = `nats://${this.#host}:${port}`;
        const advice = "name another port, or 0 for any that is free";
        reject(
          new InputUnusableError(where, `Cannot listen on ${where}: ${cause.message}; ${advice}`, {
            cause,
          }),
        );
      });
      this.#server.listen(port, this.#host, resolve);
    });
    const bound = this.#server.address();
    this.#port = typeof bound === "object" && bound !== null ? bound.port : port;
  }

  clients(): string[] {
    return [...this.#sessions].map((session) => session.name);
  }

  connections(): ConnectionReport[] {
    return [...this.#sessions].map((session) => session.report);
  }

  cut(name: string): number {
    const named = [...this.#sessions].filter((session) => session.name === name);
    for (const session of named) session.cut();
    return named.length;
  }

  close(): Promise<void> {
    this.#closing ??= new Promise((resolve) => {
      this.#server.close(() => resolve());
      for (const session of [...this.#sessions]) session.cut();
      for (const socket of this.#sockets) socket.destroy();
      for (const cancel of this.#delayed) cancel();
      this.#delayed.clear();
    });
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  // The interface to sessions ----

  isKnown(login: Login): boolean {
    if (this.auth === "open") return true;
    if ("token" in this.auth) return isSame(login.auth_token, this.auth.token);
    return isSame(login.user, this.auth.user) && isSame(login.pass, this.auth.pass);
  }

  route(from: Session, publication: Publication): void {
    const { subject, reply } = publication;
    const isHeard = ({ session }: BrokerSubscription) => session !== from || from.wantsEcho;
    // A subject with an empty token matches no subscription, not even `>`.
    const targets = subject.split(".").includes("") ? [] : this.router.match(subject, isHeard);
    for (const target of targets) this.#send(from, target, publication);
    if (targets.length === 0 && reply !== undefined) from.tellNoResponders(reply);
  }

  ended(session: Session): void {
    this.#sessions.delete(session);
  }

  // ----

  #accept(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("close", () => this.#sockets.delete(socket));
    const isFull =
      this.#sessions.size >= (this.#options.connectionsMax ?? 1024) && !this.#makeRoom();
    const session = new Session(socket, this, ++this.#clients, this.#info());
    this.#sessions.add(session);
    if (isFull) session.fail("maximum connections exceeded");
  }

  /**
   * Drops the oldest client that has not logged in. Otherwise clients without the token could keep
   * out clients with it.
   */
  #makeRoom(): boolean {
    for (const session of this.#sessions) {
      if (session.isAdmitted) continue;
      session.cut();
      return true;
    }
    return false;
  }

  #info(): object {
    return {
      server_id: this.#serverId,
      server_name: "osiris",
      version: "2.9.0", // Version of the implemented protocol, for clients.
      proto: 1,
      go: "",
      host: this.#host,
      port: this.#port,
      headers: true,
      max_payload: this.limits.payloadBytesMax,
      auth_required: this.mustLogin,
    };
  }

  #send(from: Session, target: BrokerSubscription, publication: Publication): void {
    const { intercept } = this.#options;
    const verdict =
      intercept?.(from.name, publication.subject, target.session.name) ?? ("deliver" as const);
    if (verdict === "drop") return;
    if (typeof verdict === "object") {
      this.#delay(verdict.delayMs, target, publication);
      return;
    }
    if (verdict === "reorder") {
      this.#reorder(target, publication);
      return;
    }
    const given = verdict === "corrupt" ? withFlippedBit(publication) : publication;
    target.session.deliver(target, given);
    if (verdict === "duplicate") target.session.deliver(target, publication);
    this.#overtaken.get(target)?.();
  }

  #reorder(target: BrokerSubscription, publication: Publication): void {
    this.#overtaken.get(target)?.();
    const release = () => {
      cancel();
      this.#delayed.delete(cancel);
      this.#overtaken.delete(target);
      target.session.deliver(target, publication);
    };
    const cancel = this.clock.after(overtakenMs, release);
    this.#delayed.add(cancel);
    this.#overtaken.set(target, release);
  }

  #delay(delayMs: number, target: BrokerSubscription, publication: Publication): void {
    if (this.#delayed.size >= delayedFramesMax) return;
    const cancel = this.clock.after(delayMs, () => {
      this.#delayed.delete(cancel);
      target.session.deliver(target, publication);
    });
    this.#delayed.add(cancel);
  }
}

/** A copy of a frame with one bit flipped in the middle of its payload; an empty frame as it is. */
function withFlippedBit(publication: Publication): Publication {
  const { message, headerBytes } = publication;
  if (message.length === headerBytes) return publication;
  const wrong = Buffer.from(message);
  const at = headerBytes + Math.floor((message.length - headerBytes) / 2);
  wrong.writeUInt8(wrong.readUInt8(at) ^ 1, at);
  return { ...publication, message: wrong };
}

function loopback(host: string): string {
  if (/^127(\.\d{1,3}){3}$/.test(host) || host === "::1" || host === "localhost") return host;
  throw expected("host", "a loopback address (beyond one machine, use nats-server)", host);
}

/** Compares secrets in constant time. */
function isSame(given: string | undefined, secret: string): boolean {
  const digest = (text: string) => createHash("sha256").update(text).digest();
  return given !== undefined && timingSafeEqual(digest(given), digest(secret));
}
