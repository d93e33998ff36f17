// One client of the embedded broker: its login, its subscriptions, and whether it is alive.
//
//   accepted ──CONNECT──▶ admitted ──fail, or the socket closes──▶ ended
//
// Invariants
//   S1. Before it has shown its token or password, a client may send CONNECT and nothing else.
//   S2. An ended session has no subscription, no timer and no buffer, and no frame reaches it.
//   S3. A client is disconnected with one -ERR that names the reason, if its socket still takes it.

import type { Socket } from "node:net";
import { z } from "zod";
import type { Cancel, Clock } from "../../ports/clock.ts";
import { isPattern, isSubject, matches } from "../messages/subjects.ts";
import type { SubjectRouter } from "../transports/subject-router.ts";
import { Outbox } from "./outbox.ts";
import { type CommandSink, ProtocolParser, type Publication, type Violation } from "./parser.ts";

/** A subscription of one client. */
export interface BrokerSubscription {
  readonly session: Session;
  readonly sid: string;
  readonly pattern: string;
  readonly queue: string | undefined;
  delivered: number;
  /** The subscription ends after this many frames. */
  max: number | undefined;
}

/** The broker's interface to a session. */
export interface SessionHost {
  readonly clock: Clock;
  readonly router: SubjectRouter<BrokerSubscription>;
  readonly limits: SessionLimits;
  /** Whether clients must log in. */
  readonly mustLogin: boolean;
  isKnown(login: Login): boolean;
  route(from: Session, publication: Publication): void;
  ended(session: Session): void;
}

export interface SessionLimits {
  readonly payloadBytesMax: number;
  readonly controlLineBytesMax: number;
  readonly pendingBytesMax: number;
  readonly subscriptionsMax: number;
  readonly authTimeoutMs: number;
  readonly pingIntervalMs: number;
  readonly pingsOutMax: number;
}

const hello = z.object({
  verbose: z.boolean().default(true),
  pedantic: z.boolean().default(true),
  echo: z.boolean().default(true),
  headers: z.boolean().default(false),
  no_responders: z.boolean().default(false),
  name: z.string().max(256).default(""),
  user: z.string().max(1024).optional(),
  pass: z.string().max(1024).optional(),
  auth_token: z.string().max(1024).optional(),
});

/** The credentials that a client sends. */
export type Login = Pick<z.output<typeof hello>, "user" | "pass" | "auth_token">;

/** Why a session ends, in the words of the NATS protocol. */
export type Ending =
  | Violation
  | "Authentication Timeout"
  | "Slow Consumer"
  | "Stale Connection"
  | "maximum connections exceeded"
  | "maximum subscriptions exceeded";

/** How long a disconnected client has to read the reason. */
const lingerMs = 500;
const lineEnd = Buffer.from("\r\n");
const noResponders = Buffer.from("NATS/1.0 503\r\n\r\n");

export class Session implements CommandSink {
  readonly #socket: Socket;
  readonly #host: SessionHost;
  readonly #outbox: Outbox;
  readonly #parser: ProtocolParser;
  readonly #subscriptions = new Map<string, BrokerSubscription>();
  readonly #timers = new Map<"login" | "ping", Cancel>();
  /** Before CONNECT, a NATS server treats a client as verbose. */
  #client: z.output<typeof hello> = hello.parse({});
  #isAdmitted: boolean;
  #isEnded = false;
  #pingsOut = 0;
  #hasSpoken = false;

  constructor(socket: Socket, host: SessionHost, info: string) {
    this.#socket = socket;
    this.#host = host;
    this.#isAdmitted = !host.mustLogin;
    this.#outbox = new Outbox(socket, host.limits.pendingBytesMax);
    this.#parser = new ProtocolParser(this, host.limits);
    socket.setNoDelay(true);
    socket.on("data", (chunk: Buffer) => this.#receive(chunk));
    socket.on("error", () => undefined); // "close" follows, and says all that matters.
    socket.on("close", () => this.#end());
    socket.write(info);
    if (host.mustLogin) {
      this.#arm("login", host.limits.authTimeoutMs, () => this.fail("Authentication Timeout"));
    }
    this.#arm("ping", host.limits.pingIntervalMs, () => this.#checkAlive());
  }

  /** The name that the client gave itself; empty if none. */
  get name(): string {
    return this.#client.name;
  }

  /** Whether the client has logged in. S1 */
  get isAdmitted(): boolean {
    return this.#isAdmitted;
  }

  /** Whether the client wants its own frames back. */
  get wantsEcho(): boolean {
    return this.#client.echo;
  }

  /** Sends a frame to one of this client's subscriptions. */
  deliver(subscription: BrokerSubscription, publication: Publication): void {
    if (this.#isEnded || this.#subscriptions.get(subscription.sid) !== subscription) return;
    subscription.delivered++;
    const { subject, reply } = publication;
    const hasHeaders = publication.headerBytes > 0 && this.#client.headers;
    const message =
      hasHeaders || publication.headerBytes === 0
        ? publication.message
        : publication.message.subarray(publication.headerBytes);
    const route = `${subject} ${subscription.sid} ${reply === undefined ? "" : `${reply} `}`;
    const line = hasHeaders
      ? `HMSG ${route}${publication.headerBytes} ${message.length}\r\n`
      : `MSG ${route}${message.length}\r\n`;
    if (!this.#outbox.add(Buffer.from(line, "latin1"), message, lineEnd)) {
      this.fail("Slow Consumer");
      return;
    }
    if (subscription.max !== undefined && subscription.delivered >= subscription.max) {
      this.#forget(subscription);
    }
  }

  /** Tells the client that its request has no subscribers, if it wants to know. */
  tellNoResponders(reply: string): void {
    if (!this.#client.no_responders || !this.#client.headers) return;
    for (const subscription of this.#subscriptions.values()) {
      if (!matches(subscription.pattern, reply)) continue;
      const headerBytes = noResponders.length;
      this.deliver(subscription, {
        subject: reply,
        reply: undefined,
        message: noResponders,
        headerBytes,
      });
      return;
    }
  }

  /** Ends the session and tells the client why. S3 */
  fail(reason: Ending): void {
    if (this.#isEnded) return;
    this.#outbox.flush();
    this.#end();
    if (this.#socket.writable) this.#socket.end(`-ERR '${reason}'\r\n`);
    this.#socket.resume(); // Reads on and drops all bytes: a reset would lose the -ERR.
    const cancel = this.#host.clock.after(lingerMs, () => this.#socket.destroy());
    this.#socket.on("close", cancel);
  }

  /** Ends the session at once, as a dying broker would. */
  cut(): void {
    this.#outbox.flush();
    this.#end();
    this.#socket.destroy();
  }

  // Commands of the client ----

  admits(verb: string): boolean {
    return this.#isAdmitted || verb === "CONNECT"; // S1
  }

  connect(json: string): void {
    const client = helloOf(json);
    if (client === undefined) {
      this.fail("Unknown Protocol Operation");
      return;
    }
    if (this.#host.mustLogin && !this.#host.isKnown(client)) {
      this.fail("Authorization Violation");
      return;
    }
    this.#client = client;
    this.#isAdmitted = true;
    this.#disarm("login");
    this.#confirm();
  }

  publish(publication: Publication): void {
    const { subject, reply } = publication;
    if (!isSubject(subject) || (reply !== undefined && !isSubject(reply))) {
      this.#complain("Invalid Publish Subject");
      return;
    }
    this.#confirm(); // Before an echo of the frame, as in nats-server.
    this.#host.route(this, publication);
  }

  subscribe(pattern: string, queue: string | undefined, sid: string): void {
    if (!isPattern(pattern)) {
      this.#complain("Invalid Subject");
      return;
    }
    if (this.#subscriptions.has(sid)) {
      // The client sent CONNECT twice.
      this.#confirm();
      return;
    }
    if (this.#subscriptions.size >= this.#host.limits.subscriptionsMax) {
      this.fail("maximum subscriptions exceeded");
      return;
    }
    const subscription = { session: this, sid, pattern, queue, delivered: 0, max: undefined };
    this.#subscriptions.set(sid, subscription);
    this.#host.router.add(subscription);
    this.#confirm();
  }

  unsubscribe(sid: string, max: number | undefined): void {
    const subscription = this.#subscriptions.get(sid);
    if (subscription !== undefined) {
      subscription.max = max;
      if (max === undefined || subscription.delivered >= max) this.#forget(subscription);
    }
    this.#confirm();
  }

  ping(): void {
    this.#say("PONG\r\n");
  }

  pong(): void {
    this.#pingsOut = 0;
  }

  // ----

  #receive(chunk: Buffer): void {
    if (this.#isEnded) return;
    this.#hasSpoken = true;
    const violation = this.#parser.push(chunk);
    if (violation !== undefined) this.fail(violation);
  }

  #checkAlive(): void {
    if (this.#hasSpoken) this.#pingsOut = 0;
    else if (this.#pingsOut >= this.#host.limits.pingsOutMax) {
      this.fail("Stale Connection");
      return;
    }
    if (!this.#hasSpoken) {
      this.#pingsOut++;
      this.#say("PING\r\n");
    }
    this.#hasSpoken = false;
    this.#arm("ping", this.#host.limits.pingIntervalMs, () => this.#checkAlive());
  }

  #confirm(): void {
    if (this.#client.verbose) this.#say("+OK\r\n");
  }

  #complain(reason: string): void {
    this.#say(`-ERR '${reason}'\r\n`);
  }

  #say(line: string): void {
    if (this.#isEnded) return;
    if (!this.#outbox.add(Buffer.from(line, "latin1"))) this.fail("Slow Consumer");
  }

  #forget(subscription: BrokerSubscription): void {
    this.#subscriptions.delete(subscription.sid);
    this.#host.router.remove(subscription);
  }

  #arm(name: "login" | "ping", delayMs: number, task: () => void): void {
    this.#disarm(name);
    this.#timers.set(name, this.#host.clock.after(delayMs, task));
  }

  #disarm(name: "login" | "ping"): void {
    this.#timers.get(name)?.();
    this.#timers.delete(name);
  }

  #end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#parser.stop();
    for (const cancel of this.#timers.values()) cancel();
    this.#timers.clear();
    for (const subscription of this.#subscriptions.values()) {
      this.#host.router.remove(subscription);
    }
    this.#subscriptions.clear();
    this.#host.ended(this);
  }
}

function helloOf(json: string): z.output<typeof hello> | undefined {
  try {
    return hello.safeParse(JSON.parse(Buffer.from(json, "latin1").toString("utf8"))).data;
  } catch {
    return undefined;
  }
}
