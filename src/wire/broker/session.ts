// One client of the embedded broker: its login, its subscriptions, and whether it is alive.
//
//   accepted ──CONNECT──▶ admitted ──fail, or the socket closes──▶ ended
//
// Invariants
//   S1. Before it has shown its token or password, a client may send CONNECT and nothing else.
//   S2. An ended session has no subscription, no timer and no buffer, and no frame reaches it.
//   S3. A client is disconnected with one -ERR that names the reason, if its socket still takes it.

import type { Socket } from "node:net";
import type { Cancel, Clock } from "../../ports/clock.ts";
import { guarded } from "../http/answering.ts";
import { matches } from "../messages/subjects.ts";
import type { SubjectRouter } from "../transports/subject-router.ts";
import { type Hello, helloOf, type Login, noHello } from "./hello.ts";
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

/** Why a session ends, in the words of the NATS protocol. */
export type Ending =
  | Violation
  | "Authentication Timeout"
  | "Slow Consumer"
  | "Stale Connection"
  | "invalid client protocol"
  | "no responders requires headers support"
  | "maximum connections exceeded"
  | "maximum subscriptions exceeded";

/** A report of one connection: its client, its traffic and its subscriptions. */
export interface ConnectionReport {
  /** The `client_id` of its INFO. */
  readonly id: number;
  /** The name that the client gave itself; empty if none. */
  readonly name: string;
  readonly ip: string;
  readonly port: number;
  /** Frames published, and bytes of their headers and payloads. */
  readonly framesIn: number;
  readonly bytesIn: number;
  /** Frames delivered, and bytes of their headers and payloads. */
  readonly framesOut: number;
  readonly bytesOut: number;
  /** Bytes that wait for the client to read. */
  readonly pendingBytes: number;
  readonly subscriptions: readonly {
    readonly subject: string;
    readonly queue?: string | undefined;
    readonly sid: string;
    readonly delivered: number;
  }[];
}

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
  #client = noHello;
  #isAdmitted: boolean;
  #isEnded = false;
  #pingsOut = 0;
  #hasSpoken = false;
  readonly #carried = { framesIn: 0, bytesIn: 0, framesOut: 0, bytesOut: 0 };
  readonly #id: number;

  /** `info`: the server's INFO, without the fields about this client. */
  constructor(socket: Socket, host: SessionHost, id: number, info: object) {
    this.#socket = socket;
    this.#id = id;
    this.#host = host;
    this.#isAdmitted = !host.mustLogin;
    this.#outbox = new Outbox(socket, host.limits.pendingBytesMax);
    this.#parser = new ProtocolParser(this, host.limits);
    socket.setNoDelay(true);
    // A client's bytes end that client at most, never the broker.
    const receive = guarded(
      (chunk: Buffer) => this.#receive(chunk),
      () => this.cut(),
    );
    socket.on("data", receive);
    socket.on("error", () => undefined); // "close" follows, and ends the session.
    socket.on("close", () => this.#end());
    const whole = { ...info, client_id: id, client_ip: socket.remoteAddress };
    socket.write(`INFO ${JSON.stringify(whole)}\r\n`);
    if (host.mustLogin) {
      this.#arm("login", host.limits.authTimeoutMs, () => this.fail("Authentication Timeout"));
    }
    this.#arm("ping", host.limits.pingIntervalMs, () => this.#checkAlive());
  }

  /** The name that the client gave itself; empty if none. */
  get name(): string {
    return this.#client.name;
  }

  get report(): ConnectionReport {
    const { remoteAddress: ip = "", remotePort: port = 0 } = this.#socket;
    const { pendingBytes } = this.#outbox;
    const subscriptions = [...this.#subscriptions.values()].map(
      ({ pattern: subject, queue, sid, delivered }) => ({ subject, queue, sid, delivered }),
    );
    const { name } = this;
    return { id: this.#id, name, ip, port, ...this.#carried, pendingBytes, subscriptions };
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
    if (!this.#write(subscription, publication)) return;
    if (subscription.max !== undefined && subscription.delivered >= subscription.max) {
      this.#forget(subscription);
    }
  }

  /**
   * Writes a frame to the client. Returns false if the client could not take it: its session has
   * ended.
   */
  #write(subscription: BrokerSubscription, publication: Publication): boolean {
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
      return false;
    }
    this.#carried.framesOut++;
    this.#carried.bytesOut += message.length;
    return true;
  }

  /**
   * Sends "no responders" for a request without subscribers, if the client supports it: on its
   * first plain subscription to the reply subject. As in nats-server, the frame does not count for
   * the maximum of UNSUB.
   */
  tellNoResponders(reply: string): void {
    if (!this.#client.no_responders || this.#isEnded) return;
    for (const subscription of this.#subscriptions.values()) {
      if (subscription.queue !== undefined || !matches(subscription.pattern, reply)) continue;
      const [subject, headerBytes] = [reply, noResponders.length];
      this.#write(subscription, { subject, reply: undefined, message: noResponders, headerBytes });
      return;
    }
  }

  /** Ends the session after sending the reason to the client. S3 */
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

  refusalOf(verb: string): Violation | undefined {
    if (verb === "CONNECT") return undefined;
    if (!this.#isAdmitted) return "Authorization Violation"; // S1
    return verb === "HPUB" && !this.#client.headers ? "message headers not supported" : undefined;
  }

  connect(json: string): void {
    const client = helloOf(json, this.#client);
    const refusal = client === undefined ? "Parser Error" : this.#whyNot(client);
    if (client === undefined || refusal !== undefined) {
      if (refusal !== undefined) this.fail(refusal);
      return;
    }
    this.#client = client;
    this.#isAdmitted = true;
    this.#disarm("login");
    this.#confirm();
  }

  #whyNot(client: Hello): Ending | undefined {
    if (this.#host.mustLogin && !this.#host.isKnown(client)) return "Authorization Violation";
    const { protocol, no_responders, headers } = client;
    if (![0, 1].includes(protocol)) return "invalid client protocol";
    return no_responders && !headers ? "no responders requires headers support" : undefined;
  }

  /**
   * As in nats-server, a subject with wildcards is carried, and only pedantic clients get an error.
   */
  publish(publication: Publication): void {
    const { subject, message } = publication;
    this.#carried.framesIn++;
    this.#carried.bytesIn += message.length;
    if (this.#client.pedantic && !isLiteral(subject)) this.#complain("Invalid Publish Subject");
    this.#confirm(); // Before an echo of the frame, as in nats-server.
    this.#host.route(this, publication);
  }

  subscribe(pattern: string, queue: string | undefined, sid: string): void {
    if (!isSubscribable(pattern)) {
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

/** Tokens, none of them empty, and `>` only as the last. */
function isSubscribable(pattern: string): boolean {
  const tokens = pattern.split(".");
  return tokens.every((one, at) => one !== "" && (one !== ">" || at === tokens.length - 1));
}

/** Tokens, none of them empty or a wildcard. */
function isLiteral(subject: string): boolean {
  return subject.split(".").every((one) => one !== "" && one !== "*" && one !== ">");
}
