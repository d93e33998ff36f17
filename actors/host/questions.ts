// The questions that coordinators ask a device, and its answers. Both kinds of devices follow this
// protocol: that of synchronous training (device.ts), and a trainer (asynchronous/trainer.ts). Each
// waits for questions in its state `paused`, and works on one in `busy`.
//
// Takes   device.run · device.evaluate · device.save
// Emits   device.reached · device.evaluated · device.cut
//
// Invariants
//   K1. A repeated question is executed once; its answer is sent again. A question older than the
//       last answered one arrived late and is not executed.

import { type Address, type Mailbox, type MessageEvent, openMailbox } from "../runtime/mailbox.ts";

/** Numbered requests; the answer has the same number. */
export type Question = MessageEvent<"device.run" | "device.evaluate" | "device.save">;

type Body<Type extends "device.reached" | "device.evaluated" | "device.cut"> = Omit<
  MessageEvent<Type>["body"],
  "command" | "device"
>;

export type Answer =
  | ({ readonly type: "reached" } & Body<"device.reached">)
  | ({ readonly type: "evaluated" } & Body<"device.evaluated">)
  | ({ readonly type: "cut" } & Body<"device.cut">);

/** The state of a device's questions. */
export interface Questioned {
  readonly mailbox: Mailbox;
  /** The question in progress. */
  readonly question: Question | undefined;
  readonly askedAtMs: number;
  readonly answered: { readonly command: number; readonly answer: Answer } | undefined;
}

export const coordinator: Address = { role: "coordinator", index: 0 };
export const checkpoint: Address = { role: "checkpoint", index: 0 };

/** A device before its first question. */
export function unasked(
  network: Parameters<typeof openMailbox>[0],
  spec: Parameters<typeof openMailbox>[1],
  device: number,
): Questioned {
  const mailbox = openMailbox(network, spec, { role: "device", index: device });
  return { mailbox, question: undefined, askedAtMs: 0, answered: undefined };
}

interface Asked {
  readonly context: Questioned;
  readonly event: { readonly type: string };
}

export const questionGuards = {
  isUnasked: ({ context }: Asked) => context.answered === undefined,
  isAnswered: ({ context, event }: Asked) =>
    isQuestion(event) && event.body.command === context.answered?.command,
  isLate: ({ context, event }: Asked) =>
    isQuestion(event) && event.body.command < (context.answered?.command ?? 0),
};

export function isQuestion(event: { readonly type: string }): event is Question {
  return ["device.run", "device.evaluate", "device.save"].includes(event.type);
}

/** Interval at which an unanswered `device.ready` is repeated. */
const readyAgainMs = 500;

/** K1. Transitions of a question: answered before, too late, or new. */
const questionTaken = [
  { guard: "isAnswered", actions: "sendAnswer" },
  { guard: "isLate" },
  { target: "busy", actions: "note" },
] as const;

/** The state in which a device waits for questions. */
export const paused = {
  on: {
    "device.run": questionTaken,
    "device.evaluate": questionTaken,
    "device.save": questionTaken,
  },
  // device.ready may have been lost: it is repeated until the first question arrives.
  after: {
    [readyAgainMs]: {
      guard: "isUnasked",
      target: "paused",
      reenter: true,
      actions: "sendReady",
    },
  },
} as const;

/** The changes of this state for a new question. */
export function asked(event: { readonly type: string }, nowMs: number): Partial<Questioned> {
  return isQuestion(event) ? { question: event, askedAtMs: nowMs } : {};
}

/** The changes of this state for the answer to the question in progress. */
export function answeredWith({ question }: Questioned, answer: Answer): Partial<Questioned> {
  if (question === undefined) return {};
  return { question: undefined, answered: { command: question.body.command, answer } };
}

/** Sends the last answer. */
export function sendAnswer({ answered, mailbox }: Questioned): void {
  if (answered === undefined) return;
  const { command, answer } = answered;
  const of = { command, device: mailbox.self.index };
  if (answer.type === "reached") {
    mailbox.send(coordinator, "device.reached", { ...answer, ...of });
  } else if (answer.type === "evaluated") {
    mailbox.send(coordinator, "device.evaluated", { ...answer, ...of });
  } else mailbox.send(checkpoint, "device.cut", { ...answer, ...of });
}
