// The mailbox: how an actor of a generation speaks over the transport. Its subject carries run,
// generation, role and index, so that whatever was meant for an older generation finds nobody.

import { FrameCorruptError, StepTimeoutError } from "../../src/errors/errors.ts";
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
import type { WaitBook } from "./wait-graph.ts";

export type ActorMessage = MessageOf<Messages>;
export type MessageType = keyof Messages & string;
export type BodyOf<Type extends MessageType> = Extract<ActorMessage, { type: Type }>["body"];
type OutgoingBody<Type extends MessageType> = Extract<OutgoingOf<Messages>, { type: Type }>["body"];

export type Role = Exclude<SubjectRole, "frames" | "copies">;

/** Who an actor is, within a cluster. */
export interface Address {
  readonly role: Role;
  readonly index: number;
}

/** Where the broker is, and who asks. Plain data: it goes into threads, and over no wire. */
export interface Connection extends Credentials {
  readonly servers: string;
}

/** What every actor is given of the cluster it lives in. */
export interface Network {
  readonly transport: Transport;
  /** How a thread of this process makes a connection of its own. */
  readonly connection: Connection;
  readonly cluster: string;
  readonly clock: Clock;
  /** Where checkpoints and caches lie. */
  readonly disk: Disk;
  readonly log: Log;
  /** Of the runs that are supervised here, every so many-th step is traced; undefined: none is. */
  readonly tracedEvery?: number | undefined;
  /** How long the broker has been within reach; 0 while it is not: silence means nothing then. */
  connectedForMs(): number;
  /**
   * Of a root under a lease: throws LeadershipLostError where another process leads by now.
   * Undefined: there is no lease.
   */
  readonly assertLeading?: (() => void) | undefined;
  /** Whether `chaos.throw` is obeyed. */
  readonly faultsAllowed: boolean;
  /** What the actors of this process wait for. */
  readonly waits: WaitBook;
  /** Frames that were refused in this process so far. */
  readonly refused: { frames: number };
  /** A frame that is no message: counted in `refused` and told, never obeyed. */
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
  /** What it has heard, for whoever looks on. */
  readonly heard: { messages: number; lastAtMs: number };
  tell<Type extends MessageType>(to: Address, type: Type, body: OutgoingBody<Type>): void;
  /** Calls `receive` for every message to this actor. */
  listen(receive: (message: ActorMessage) => void): Subscription;
}

export function openMailbox(
  network: Network,
  { run, generation }: RunScope,
  { role, index }: Address,
): Mailbox {
  const { transport, cluster } = network;
  const scope = { run, generation };
  const self = { role, index };
  const heard = { messages: 0, lastAtMs: network.clock.now() };
  return {
    scope,
    self,
    heard,
    tell(to, type, body) {
      const subject = subjectOf({ cluster, ...scope, ...to, verb: verbOf(type) });
      const from = `${self.role}:${self.index}`;
      // The pair (type, body) is one of the catalogue's, as the signature says.
      const message = { type, ...scope, from, body } as OutgoingOf<Messages>;
      transport.publish(subject, messages.encode(message));
    },
    listen: (receive) =>
      subscribe(network, { ...scope, ...self }, (message) => {
        heard.messages++;
        heard.lastAtMs = network.clock.now();
        receive(message);
      }),
  };
}

/** Messages to every actor that `pattern` selects, from whatever run and generation. */
export function subscribe(
  network: Network,
  pattern: Partial<RunScope> & Address,
  receive: (message: ActorMessage) => void,
): Subscription {
  const subject = subjectPattern({ cluster: network.cluster, ...pattern });
  return network.transport.subscribe(subject, (frame) => {
    let message: ActorMessage;
    try {
      message = messageIn(frame, network);
    } catch (error) {
      network.onCorrupt(error instanceof Error ? error : new Error(String(error)));
      return;
    }
    receive(message);
  });
}

/**
 * The message in a frame, where its subject says the same of it, and whom it came to is the one who
 * takes it. @throws FrameCorruptError
 */
function messageIn(frame: Frame, { faultsAllowed }: Network): ActorMessage {
  const message = messages.decode(frame);
  const { type, run, generation } = message;
  const to = parseSubject(frame.subject);
  if (to?.run !== run || to.generation !== generation || to.verb !== verbOf(type)) {
    throw new FrameCorruptError(frame.subject, `it carries \`${type}\` of somewhere else`);
  }
  const taker = takers[type];
  if (taker !== "any" && taker !== to.role) {
    throw new FrameCorruptError(frame.subject, `\`${type}\` is for a ${taker}`);
  }
  if (type === "chaos.throw" && !faultsAllowed) {
    throw new FrameCorruptError(frame.subject, "faults are not allowed here");
  }
  return message;
}

function verbOf(type: MessageType): string {
  return type.replace(".", "-");
}

/** How often a question is asked again, as a share of its deadline, and at most. */
const repeatMsMax = 1000;

/**
 * Asks until everyone in `to` has answered with a message that `answer` picks, and returns the
 * answers in that order. @throws StepTimeoutError naming who did not, after the deadline
 */
export function ask<Type extends MessageType, Answer>(options: {
  readonly network: Network;
  readonly mailbox: Mailbox;
  readonly to: readonly Address[];
  readonly type: Type;
  readonly body: OutgoingBody<Type>;
  /** The answer in a message, and who gave it (position in `to`). */
  readonly answer: (message: ActorMessage) => { from: number; answer: Answer } | undefined;
  /** Infinity where somebody else watches over the time that it takes. */
  readonly deadlineMs: number;
  readonly signal?: AbortSignal;
}): Promise<Answer[]> {
  const { network, mailbox, to, type, body, answer, deadlineMs, signal } = options;
  const { clock } = network;
  return new Promise<Answer[]>((resolve, reject) => {
    const answers = new Map<number, Answer>();
    const startMs = clock.now();
    let cancel = () => {};
    const nameOf = ({ role, index }: Address) => `${role}:${index}`;
    const missing = () => to.filter((_, i) => !answers.has(i));
    // Who may answer whenever he likes is watched by somebody else, who keeps that wait.
    const close = Number.isFinite(deadlineMs)
      ? network.waits.open({
          run: mailbox.scope.run,
          who: nameOf(mailbox.self),
          whom: () => missing().map(nameOf),
          what: `an answer to ${type}`,
        })
      : () => {};
    const subscription = mailbox.listen((message) => {
      const given = answer(message);
      if (given === undefined || answers.has(given.from)) return;
      if (!(given.from in to)) return; // Nobody asked it.
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
        for (const address of missing()) mailbox.tell(address, type, body);
      } catch (error) {
        return finish(() => reject(error));
      }
      cancel = clock.after(Math.min(repeatMsMax, deadlineMs / 4), send);
    };
    signal?.addEventListener("abort", () => finish(() => reject(signal.reason)), { once: true });
    send();
  });
}

function inOrder<Answer>(count: number, answers: Map<number, Answer>): Answer[] {
  return Array.from({ length: count }, (_, i) => answers.get(i) as Answer);
}
