// The mailbox: sends and receives messages of an actor over the transport. Its subject has run,
// generation, role and index, so that a message to an older generation reaches no actor.

import { fromCallback } from "xstate";
import { FrameCorruptError, StepTimeoutError } from "../../src/errors/errors.ts";
import type { HostLinks } from "../../src/exchange/links/link-options.ts";
import type { LinkKeeper } from "../../src/planner/fleet.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { Disk } from "../../src/ports/disk.ts";
import type { Log } from "../../src/ports/log.ts";
import type { MessageOf, OutgoingOf } from "../../src/wire/messages/codec.ts";
import { type Messages, messages, takers } from "../../src/wire/messages/messages.ts";
import {
  parseSubject,
  type SubjectRole,
  subjectOf,
  subjectPattern,
} from "../../src/wire/messages/subjects.ts";
import type { Frame, Subscription, Transport } from "../../src/wire/messages/transport.ts";
import type { Credentials } from "../../src/wire/transports/credentials.ts";
import { LastMessages } from "./last-messages.ts";
import type { WaitBook } from "./wait-graph.ts";

export type ActorMessage = MessageOf<Messages>;
export type MessageType = keyof Messages & string;
type OutgoingBody<Type extends MessageType> = Extract<OutgoingOf<Messages>, { type: Type }>["body"];

export type Role = Exclude<SubjectRole, "frames" | "copies" | "splits">;

/** Address of an actor within its run and generation. */
export interface Address {
  readonly role: Role;
  readonly index: number;
}

/**
 * Broker address and credentials. Plain data that is passed to threads and never sent over the
 * wire.
 */
export interface Connection extends Credentials {
  readonly servers: string;
  /** Longest wait for the first connection, in milliseconds. @default 10000 */
  readonly deadlineMs?: number | undefined;
}

/** The process-wide services and settings that every actor receives. */
export interface Network {
  readonly transport: Transport;
  /** For threads of this process, which open connections of their own. */
  readonly connection: Connection;
  readonly cluster: string;
  readonly clock: Clock;
  /** The disk of checkpoints and caches. */
  readonly disk: Disk;
  readonly log: Log;
  /** Keeps the measured links between hosts; undefined: links are not measured. */
  readonly links?: LinkKeeper | undefined;
  /** Direct links of this process; `mode`: of a leader, for all hosts of its runs. */
  readonly hostLinks?: HostLinks | undefined;
  /** Memory limit of this process; undefined: that of the operating system. */
  readonly memoryBytes?: number | undefined;
  /**
   * Steps whose number is divisible by this are traced, in runs supervised by this process;
   * undefined: none is.
   */
  readonly tracedEvery?: number | undefined;
  /**
   * How long the connection to the broker has been up; 0 while it is down, when silence of a peer
   * proves nothing.
   */
  connectedForMs(): number;
  /**
   * Throws LeadershipLostError if another process has become the leader. Undefined without a lease:
   * then there is only one leader.
   */
  readonly assertLeading?: (() => void) | undefined;
  /** This process, as manifests and the lease name it. */
  readonly createdBy: string;
  /** Whether `chaos.throw` is obeyed. */
  readonly faultsAllowed: boolean;
  /** Current waits of the actors of this process. */
  readonly waits: WaitBook;
  /** Corrupt frames that this process has refused. */
  readonly refused: { frames: number };
  /** Counts a corrupt frame in `refused` and reports it; the frame is never processed. */
  onCorrupt(error: Error): void;
}

/** One generation of one run. */
export interface RunScope {
  readonly run: string;
  readonly generation: number;
}

/** The scope of actors that belong to no run. */
export const clusterScope: RunScope = { run: "cluster", generation: 0 };

export interface Mailbox {
  readonly scope: RunScope;
  readonly self: Address;
  /** Counters of received messages, for reports (actors/observe/process-report.ts). */
  readonly received: {
    messages: number;
    lastAtMs: number;
    readonly last: Pick<LastMessages, "all">;
  };
  send<Type extends MessageType>(to: Address, type: Type, body: OutgoingBody<Type>): void;
  /** Encodes a message once, for several receivers or repetitions; the function sends it. */
  encoded<Type extends MessageType>(type: Type, body: OutgoingBody<Type>): EncodedMessage;
  /**
   * Calls `receive` for every message to this actor. `isActor`: the subscriber is the actor itself,
   * not a pending request that waits for an answer on the same mailbox; only then are messages kept
   * for reports.
   */
  listen(receive: (message: ActorMessage) => void, isActor?: "isActor"): Subscription;
}

export interface EncodedMessage {
  readonly bytes: number;
  send(to: Address): void;
}

interface Listener {
  readonly receive: (message: ActorMessage) => void;
  readonly isActor: boolean;
}

export function openMailbox(
  network: Network,
  { run, generation }: RunScope,
  { role, index }: Address,
): Mailbox {
  const { transport, cluster } = network;
  const scope = { run, generation };
  const self = { role, index };
  const received = { messages: 0, lastAtMs: network.clock.now(), last: new LastMessages() };
  const listeners = new Set<Listener>();
  let subscription: Subscription | undefined;
  // A message is decoded once, however many requests wait for answers.
  const hear = (message: ActorMessage, { bytes }: Arrival) => {
    const all = [...listeners];
    received.messages++;
    received.lastAtMs = network.clock.now();
    if (all.some(({ isActor }) => isActor)) received.last.note(message, bytes, received.lastAtMs);
    for (const listener of all) if (listeners.has(listener)) listener.receive(message);
  };
  const encoded: Mailbox["encoded"] = (type, body) => {
    const from = `${self.role}:${self.index}`;
    // By the signature, (type, body) is a pair of the message catalogue.
    const payload = messages.encode({ type, ...scope, from, body } as OutgoingOf<Messages>);
    const action = actionOf(type);
    return {
      bytes: payload.length,
      send: (to) => transport.publish(subjectOf({ cluster, ...scope, ...to, action }), payload),
    };
  };
  return {
    scope,
    self,
    received,
    encoded,
    send: (to, type, body) => encoded(type, body).send(to),
    listen(receive, isActor) {
      const listener = { receive, isActor: isActor !== undefined };
      listeners.add(listener);
      subscription ??= subscribe(network, { ...scope, ...self }, hear);
      return {
        unsubscribe() {
          listeners.delete(listener);
          if (listeners.size > 0) return;
          subscription?.unsubscribe();
          subscription = undefined;
        },
      };
    },
  };
}

/** Where a message was sent to, and the size of its frame. */
interface Arrival {
  readonly index: number;
  readonly bytes: number;
}

/** Subscribes to messages to every actor that `pattern` selects; parts left out may be any. */
export function subscribe(
  network: Network,
  pattern: Partial<RunScope & Address> & Pick<Address, "role">,
  receive: (message: ActorMessage, arrival: Arrival) => void,
): Subscription {
  const subject = subjectPattern({ cluster: network.cluster, ...pattern });
  return network.transport.subscribe(subject, (frame) => {
    let arrived: readonly [ActorMessage, Arrival];
    try {
      arrived = messageIn(frame, network);
    } catch (error) {
      network.onCorrupt(error instanceof Error ? error : new Error(String(error)));
      return;
    }
    receive(...arrived);
  });
}

/**
 * The message in a frame. Its subject must name the same run, generation and type, and the role
 * that takes messages of this type. @throws FrameCorruptError
 */
function messageIn(frame: Frame, { faultsAllowed }: Network): readonly [ActorMessage, Arrival] {
  const message = messages.decode(frame);
  const { type, run, generation } = message;
  const to = parseSubject(frame.subject);
  if (to?.run !== run || to.generation !== generation || to.action !== actionOf(type)) {
    throw new FrameCorruptError(
      frame.subject,
      `the frame has the subject of another message than \`${type}\``,
    );
  }
  const taker = takers[type];
  if (taker !== "any" && taker !== to.role) {
    throw new FrameCorruptError(frame.subject, `\`${type}\` is a message to the role ${taker}`);
  }
  if (type === "chaos.throw" && !faultsAllowed) {
    throw new FrameCorruptError(frame.subject, "fault injection is not allowed in this cluster");
  }
  return [message, { index: to.index, bytes: frame.payload.length }];
}

function actionOf(type: MessageType): string {
  return type.replace(".", "-");
}

/** A request is repeated after a quarter of its deadline, at most after this time. */
const repeatMsMax = 1000;

/** A request of more bytes is repeated after twice the time of its last repetition. */
const repeatedBytesMax = 65_536;
const largeRepeatMsMax = 10_000;

/**
 * Repeats a request until every actor in `to` has answered with a message that `answer` accepts.
 * Returns the answers in the order of `to`. @throws StepTimeoutError naming the unresponsive
 * actors, after the deadline
 */
export function request<Type extends MessageType, Answer>(options: {
  readonly network: Network;
  readonly mailbox: Mailbox;
  readonly to: readonly Address[];
  readonly type: Type;
  readonly body: OutgoingBody<Type>;
  /**
   * Extracts an answer from a message, with the position in `to` of its sender; undefined: not an
   * answer.
   */
  readonly answer: (message: ActorMessage) => { from: number; answer: Answer } | undefined;
  /**
   * The positions in `to` of addressees that a message shows to be executing the request: nothing
   * is repeated to them for twice the usual time, or for `executingMs`.
   */
  readonly executing?: (message: ActorMessage) => readonly number[];
  readonly executingMs?: number;
  /** Infinity if another actor has the deadline. */
  readonly deadlineMs: number;
  readonly signal?: AbortSignal;
}): Promise<Answer[]> {
  const { network, mailbox, to, type, body, answer, executing, deadlineMs, signal } = options;
  const { executingMs = 2 * repeatMsMax } = options;
  const { clock } = network;
  return new Promise<Answer[]>((resolve, reject) => {
    const answers = new Map<number, Answer>();
    const executingAtMs = new Map<number, number>();
    const startMs = clock.now();
    let againMs = Math.min(repeatMsMax, deadlineMs / 4);
    let encoded: EncodedMessage | undefined;
    let cancel = () => {};
    const nameOf = ({ role, index }: Address) => `${role}:${index}`;
    const missing = () => to.filter((_, i) => !answers.has(i));
    // Without a deadline, another actor tracks the time and keeps the wait in its wait book.
    const close = Number.isFinite(deadlineMs)
      ? network.waits.open({
          run: mailbox.scope.run,
          waiter: nameOf(mailbox.self),
          awaited: () => missing().map(nameOf),
          what: `an answer to ${type}`,
        })
      : () => {};
    const isExecuting = (at: number) => {
      return clock.now() - (executingAtMs.get(at) ?? Number.NEGATIVE_INFINITY) < executingMs;
    };
    const subscription = mailbox.listen((message) => {
      for (const at of executing?.(message) ?? []) executingAtMs.set(at, clock.now());
      const given = answer(message);
      if (given === undefined || answers.has(given.from)) return;
      if (!(given.from in to)) return; // Not an addressee.
      answers.set(given.from, given.answer);
      if (answers.size === to.length) finish(() => resolve(inOrder(to.length, answers)));
    });
    const finish = (settle: () => void) => {
      cancel();
      close();
      subscription.unsubscribe();
      settle();
    };
    const send = () => {
      if (signal?.aborted === true) return finish(() => reject(signal.reason));
      if (clock.now() - startMs >= deadlineMs) {
        const names = missing().map(nameOf).join(", ");
        const error = new StepTimeoutError(`${names} to answer ${type}`, deadlineMs);
        return finish(() => reject(error));
      }
      try {
        encoded ??= mailbox.encoded(type, body);
        for (const [at, address] of to.entries()) {
          if (!answers.has(at) && !isExecuting(at)) encoded.send(address);
        }
      } catch (error) {
        return finish(() => reject(error));
      }
      cancel = clock.after(againMs, send);
      if (encoded.bytes > repeatedBytesMax) againMs = Math.min(2 * againMs, largeRepeatMsMax);
    };
    signal?.addEventListener("abort", () => finish(() => reject(signal.reason)), { once: true });
    send();
  });
}

function inOrder<Answer>(count: number, answers: Map<number, Answer>): Answer[] {
  return Array.from({ length: count }, (_, i) => answers.get(i) as Answer);
}

/**
 * Makes an actor throw. Nothing happens where the cluster does not allow faults, or where there is
 * no such actor. Resolves when the broker has received the order.
 */
export async function orderFault(
  network: Network,
  scope: RunScope,
  to: { readonly role: Role; readonly index: number },
  reason: string,
): Promise<void> {
  openMailbox(network, scope, { role: "cluster", index: 1 }).send(to, "chaos.throw", { reason });
  await network.transport.flush();
}

/** The event of a message: `{ type: "device.run", body, from, run, generation }`. */
export type MessageEvent<Type extends MessageType> = Extract<ActorMessage, { type: Type }>;

/** Delivers the messages of one actor's mailbox. */
export const listening = fromCallback<{ type: string }, { mailbox: Mailbox }>(
  ({ input, sendBack }) => {
    const subscription = input.mailbox.listen((message) => sendBack(message), "isActor");
    return () => subscription.unsubscribe();
  },
);

/** Delivers all messages to one host, of any run and generation. */
export const listeningAsHost = fromCallback<{ type: string }, { network: Network; host: number }>(
  ({ input, sendBack }) => {
    const address = { role: "host" as const, index: input.host };
    const subscription = subscribe(input.network, address, (message) => sendBack(message));
    return () => subscription.unsubscribe();
  },
);
