// The transport without a network: a broker and its clients in one thread, in the time of a Clock,
// with faults drawn from a seed. The same seed and the same calls give the same run.
//
//   client ──up──▶ broker ──down──▶ client     each arrow a link with a delay of its own
//
// A link keeps its order, as a TCP connection does, except for frames that the fault `reorder`
// delays. Subscribing travels up the link, too: flush before a frame is expected. The faults
// `drop`, `duplicate` and `reorder` are drawn once for each frame and receiver.
//
// Invariants
//   M1. No call affects another client directly: every effect is a later task of the clock.
//   M2. A receiver gets bytes of its own: neither the sender nor another receiver shares them.
//   M3. Frames in flight on a connection are lost when the connection is cut.
//   M4. A frame with a wrong checksum was not received: it counts as lost.

import {
  FrameCorruptError,
  FrameTooLargeError,
  RequestFailedError,
  type TrainingError,
  TransportLostError,
} from "../../errors/errors.ts";
import { expected } from "../../ports/check-options.ts";
import type { Clock } from "../../ports/clock.ts";
import { purposes, RandomStream } from "../../ports/random.ts";
import { withChecksum, withoutChecksum } from "../messages/checksum.ts";
import { checkHeaders, headerBytesOf } from "../messages/headers.ts";
import { isPattern, isSubject, matches } from "../messages/subjects.ts";
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
import { MemoryLink } from "./memory-link.ts";
import { SubjectRouter } from "./subject-router.ts";

/** Faults of frames. Probabilities lie in [0, 1]; left out means never. */
export interface MemoryFaults {
  /** Least and largest delay of one link, for all subjects. @default [0, 0] */
  readonly delayMs?: readonly [number, number];
  /** Pattern of the subjects that the other faults apply to. @default all */
  readonly subjects?: string;
  readonly drop?: number;
  readonly duplicate?: number;
  /** How often a frame is delayed past later ones, by up to four largest delays. */
  readonly reorder?: number;
  /** How often one bit of a payload is flipped on arrival. */
  readonly corrupt?: number;
}

export interface MemoryBrokerOptions {
  readonly clock: Clock;
  readonly seed: number;
  readonly faults?: MemoryFaults;
  /** @default 1 MiB, as a NATS server has it */
  readonly frameBytesMax?: number;
  /** Called with errors of receivers. @default the error reaches the driver of the clock */
  readonly onError?: (error: unknown) => void;
}

/** The simulated broker, and the controls of its faults. */
export interface MemoryBroker {
  /** Makes a client that is connected from the start. Names may repeat. */
  connect(name: string): Transport;
  /** Replaces all faults. Frames in flight keep the delays they have. */
  setFaults(...faults: readonly MemoryFaults[]): void;
  /** Loses all frames between clients of `some` and clients of `others`, both ways. */
  partition(some: readonly string[], others: readonly string[]): void;
  /** Disconnects the clients of this name until `heal`. */
  cut(name: string): void;
  /** Ends all partitions, and reconnects disconnected clients. */
  heal(): void;
}

/** Makes a broker in this thread, in the time of `clock`. */
export function createMemoryBroker(options: MemoryBrokerOptions): MemoryBroker {
  return new SimulatedBroker(options);
}

interface Subscriber {
  readonly pattern: string;
  readonly queue: string | undefined;
  readonly onCorrupt: (() => void) | undefined;
  readonly owner: MemoryTransport;
  readonly receive: (frame: Frame) => void;
}

interface Waiting {
  readonly subject: string;
  /** Takes a frame of the answer; returns the whole answer. */
  readonly collect: (frame: Frame) => Frame | undefined;
  readonly settle: (answer: Frame | TrainingError) => void;
}

class SimulatedBroker implements MemoryBroker {
  readonly router = new SubjectRouter<Subscriber>();
  readonly clock: Clock;
  readonly frameBytesMax: number;
  readonly #onError: ((error: unknown) => void) | undefined;
  readonly random: RandomStream;
  readonly #clients = new Set<MemoryTransport>();
  #partitions: { some: ReadonlySet<string>; others: ReadonlySet<string> }[] = [];
  #faults: readonly MemoryFaults[];
  #serial = 0;

  constructor(options: MemoryBrokerOptions) {
    this.clock = options.clock;
    this.frameBytesMax = options.frameBytesMax ?? 1024 * 1024;
    this.#onError = options.onError;
    this.random = new RandomStream(options.seed, purposes.faults);
    this.#faults = [options.faults ?? {}];
  }

  connect(name: string): Transport {
    const client = new MemoryTransport(this, name, this.#serial++);
    this.#clients.add(client);
    return withChunks(client, { clock: this.clock, onError: (error) => this.report(error) });
  }

  setFaults(...faults: readonly MemoryFaults[]): void {
    this.#faults = faults;
  }

  partition(some: readonly string[], others: readonly string[]): void {
    this.#partitions.push({ some: new Set(some), others: new Set(others) });
  }

  cut(name: string): void {
    for (const client of this.#clients) if (client.name === name) client.lose();
  }

  heal(): void {
    this.#partitions = [];
    for (const client of this.#clients) client.join();
  }

  report(error: unknown): void {
    if (this.#onError === undefined) throw error;
    this.#onError(error);
  }

  forget(client: MemoryTransport): void {
    this.#clients.delete(client);
  }

  delayMs(): number {
    const [least, largest] = this.#delaysMs;
    return least + (largest - least) * this.random.uniform();
  }

  /** A frame has arrived from `from`: send it to all subscribers. */
  route(from: MemoryTransport, frame: Frame, answerTo: Waiting | undefined): void {
    const targets = this.router.match(frame.subject);
    if (targets.length === 0 && answerTo !== undefined) {
      from.down.send(this.delayMs(), () =>
        answerTo.settle(new RequestFailedError(frame.subject, "nobody listens")),
      );
    }
    for (const target of targets) {
      if (this.#isApart(from.name, target.owner.name)) continue;
      if (this.#happens("drop", frame)) continue;
      this.#deliver(target, frame);
      if (this.#happens("duplicate", frame)) this.#deliver(target, frame);
    }
  }

  #deliver(target: Subscriber, frame: Frame): void {
    const arriving = this.#happens("corrupt", frame) ? this.#corrupted(frame) : frame;
    const task = () => target.owner.receive(target, arriving);
    const { down } = target.owner;
    if (this.#happens("reorder", frame)) {
      const lateMs = 4 * Math.max(1, this.#delaysMs[1]) * this.random.uniform();
      down.overtake(this.delayMs() + lateMs, task);
    } else down.send(this.delayMs(), task);
  }

  #isApart(from: string, to: string): boolean {
    return this.#partitions.some(({ some, others }) =>
      some.has(from) ? others.has(to) : others.has(from) && some.has(to),
    );
  }

  get #delaysMs(): readonly [number, number] {
    return this.#faults.find(({ delayMs }) => delayMs !== undefined)?.delayMs ?? [0, 0];
  }

  #happens(fault: "drop" | "duplicate" | "reorder" | "corrupt", { subject }: Frame): boolean {
    return this.#faults.some(({ subjects = ">", [fault]: probability = 0 }) => {
      return probability > 0 && matches(subjects, subject) && this.random.uniform() < probability;
    });
  }

  #corrupted(frame: Frame): Frame {
    const payload = new Uint8Array(frame.payload);
    const at = this.random.below(payload.length);
    if (at < payload.length) payload[at] = (payload[at] ?? 0) ^ (1 << this.random.below(8));
    return { ...frame, payload };
  }
}

class MemoryTransport implements FrameTransport {
  readonly address = "memory://broker";
  readonly name: string;
  readonly frameBytesMax: number;
  /** Frames reach the broker at once, so none are pending. */
  readonly pending = () => ({ bytes: 0, bytesMax: 0 });
  readonly status = (): TransportStatus => this.#status;
  readonly #broker: SimulatedBroker;
  readonly #subscribers = new Set<Subscriber>();
  readonly #listeners = new Set<(status: TransportStatus) => void>();
  readonly #waiting = new Map<string, Waiting>();
  readonly #flushes = new Set<(error: TrainingError) => void>();
  readonly #inbox: string;
  #status: TransportStatus = "connected";
  #isInboxOpen = false;
  #requests = 0;
  #up: MemoryLink;
  down: MemoryLink; // From the broker.

  constructor(broker: SimulatedBroker, name: string, serial: number) {
    this.name = name;
    this.frameBytesMax = broker.frameBytesMax;
    this.#broker = broker;
    this.#inbox = `_INBOX.memory${serial}`;
    this.#up = new MemoryLink(broker.clock);
    this.down = new MemoryLink(broker.clock);
  }

  publish(subject: string, payload: Uint8Array, options: PublishOptions = {}): void {
    this.#publish(subject, payload, options, undefined);
  }

  subscribe(
    subject: string,
    receive: (frame: Frame) => void,
    { queue, onCorrupt }: SubscribeOptions = {},
  ): Subscription {
    if (!isPattern(subject)) throw expected("subject", "a subject or a pattern of NATS", subject);
    if (this.#status === "closed") throw this.#lost();
    const subscriber = { pattern: subject, queue, onCorrupt, owner: this, receive };
    this.#subscribers.add(subscriber);
    this.#sendUp(() => {
      if (this.#subscribers.has(subscriber)) this.#broker.router.add(subscriber);
    });
    return {
      unsubscribe: () => {
        this.#subscribers.delete(subscriber);
        this.#sendUp(() => this.#broker.router.remove(subscriber));
      },
    };
  }

  async request(subject: string, payload: Uint8Array, options: RequestOptions): Promise<Frame> {
    if (this.#status !== "connected") {
      throw new RequestFailedError(subject, "not connected", { cause: this.#lost() });
    }
    if (!this.#isInboxOpen) this.subscribe(`${this.#inbox}.*`, (frame) => this.#answer(frame));
    this.#isInboxOpen = true;
    const reply = `${this.#inbox}.${this.#requests++}`;
    return await new Promise<Frame>((resolve, reject) => {
      const settle = (answer: Frame | Error) => {
        cancel();
        this.#waiting.delete(reply);
        if (answer instanceof Error) reject(answer);
        else resolve(answer);
      };
      const cancel = this.#broker.clock.after(options.deadlineMs, () =>
        settle(new RequestFailedError(subject, `none within ${options.deadlineMs} ms`)),
      );
      const { collect = (frame) => frame } = options;
      const waiting = { subject, collect, settle };
      this.#waiting.set(reply, waiting);
      try {
        this.#publish(subject, payload, { ...options, reply }, waiting);
      } catch (error) {
        settle(error instanceof Error ? error : new Error(String(error)));
      }
    });
  }

  async flush(): Promise<void> {
    if (this.#status !== "connected") throw this.#lost();
    await new Promise<void>((resolve, reject) => {
      this.#flushes.add(reject);
      this.#sendUp(() => {
        this.down.send(this.#broker.delayMs(), () => {
          this.#flushes.delete(reject);
          resolve();
        });
      });
    });
  }

  onStatus(tell: (status: TransportStatus) => void): Subscription {
    this.#listeners.add(tell);
    return { unsubscribe: () => this.#listeners.delete(tell) };
  }

  async close(): Promise<void> {
    if (this.#status === "closed") return;
    this.#end("closed");
    this.#broker.forget(this);
    this.#subscribers.clear();
    this.#listeners.clear();
  }

  /** The broker disconnects the client. */
  lose(): void {
    if (this.#status === "connected") this.#end("lost");
  }

  /** The broker reconnects the client, which subscribes again. */
  join(): void {
    if (this.#status !== "lost") return;
    this.#up = new MemoryLink(this.#broker.clock);
    this.down = new MemoryLink(this.#broker.clock);
    this.#status = "connected";
    for (const subscriber of this.#subscribers) {
      this.#sendUp(() => {
        if (this.#subscribers.has(subscriber)) this.#broker.router.add(subscriber);
      });
    }
    this.#tell("connected");
  }

  /** A frame has arrived for one subscriber. */
  receive(subscriber: Subscriber, frame: Frame): void {
    if (!this.#subscribers.has(subscriber)) return;
    try {
      const headers = withoutChecksum(frame); // M4
      subscriber.receive({ ...frame, headers, payload: new Uint8Array(frame.payload) }); // M2
    } catch (error) {
      if (error instanceof FrameCorruptError) subscriber.onCorrupt?.();
      this.#broker.report(error);
    }
  }

  #publish(
    subject: string,
    payload: Uint8Array,
    options: PublishOptions,
    answerTo: Waiting | undefined,
  ): void {
    if (!isSubject(subject)) throw expected("subject", "a subject of NATS", subject);
    const { reply } = options;
    if (reply !== undefined && !isSubject(reply)) throw expected("reply", "a subject", reply);
    const headers = checkHeaders(options.headers);
    const frameBytes = payload.length + headerBytesOf(headers);
    if (frameBytes > this.frameBytesMax) {
      throw new FrameTooLargeError(frameBytes, this.frameBytesMax);
    }
    const frame: Frame = {
      subject,
      payload: new Uint8Array(payload), // M2
      headers: withChecksum(payload, headers), // M4
      ...(reply === undefined ? {} : { reply }),
    };
    this.#sendUp(() => this.#broker.route(this, frame, answerTo));
  }

  #sendUp(task: () => void): void {
    if (this.#status === "connected") this.#up.send(this.#broker.delayMs(), task);
  }

  #answer(frame: Frame): void {
    const { reply: _, ...given } = frame;
    const waiting = this.#waiting.get(frame.subject);
    const answer = waiting?.collect(given);
    if (answer !== undefined) waiting?.settle(answer);
  }

  #end(status: "lost" | "closed"): void {
    if (status === "lost") this.#up.close(); // Frames sent before a close still arrive.
    this.down.close();
    for (const subscriber of this.#subscribers) this.#broker.router.remove(subscriber);
    this.#tell(status);
    const cause = this.#lost();
    for (const { subject, settle } of [...this.#waiting.values()]) {
      settle(new RequestFailedError(subject, "the connection was lost", { cause }));
    }
    for (const reject of this.#flushes) reject(cause);
    this.#flushes.clear();
  }

  #tell(status: TransportStatus): void {
    this.#status = status;
    for (const tell of [...this.#listeners]) tell(status);
  }

  #lost(): TransportLostError {
    const reason = this.#status === "closed" ? "the client was closed" : "the connection was lost";
    return new TransportLostError(this.address, reason);
  }
}
