// defineActor: the behaviour that all supervised actors share beside their own machines. It adds:
//
// - Listening. The actor receives from its mailbox from start to end: each message is an event of
//   the machine, of the same type.
// - The injected throw. `chaos.throw` makes the actor fail in any state, so that a test can break
//   any part of the tree. A mailbox delivers that message only where faults are allowed.
// - Ordered shutdown. An actor that stops or fails stops its children, last started first, as in
//   OTP. xstate alone stops the children of a stopped machine in the order of their start, and lets
//   the children of a failed machine run on: threads without a supervisor.

import {
  type AnyActorLogic,
  type AnyActorRef,
  type AnyActorScope,
  type AnyMachineSnapshot,
  type AnyStateMachine,
  createMachine,
} from "xstate";
import type { Cancel, Clock } from "../../src/ports/clock.ts";
import { listening } from "./mailbox.ts";

/** Wraps a machine as a supervised actor. */
export function defineActor<Machine extends AnyStateMachine>(
  machine: Machine,
  options: {
    /**
     * The child that receives the actor's messages; its input is the actor's context.
     * @default it listens to the mailbox in its context
     */
    readonly receives?: AnyActorLogic | "nothing";
  } = {},
): Machine {
  const { receives = listening } = options;
  const actor = receives === "nothing" ? machine : withChild(machine, "listening", receives);
  const { transition } = actor;
  const supervised: typeof transition = (snapshot, event, scope) => {
    if (event.type === "xstate.stop") stopChildren(snapshot, scope);
    let next: AnyMachineSnapshot;
    try {
      throwInjected(event);
      next = transition(snapshot, event, scope);
    } catch (error) {
      stopChildren(snapshot, scope);
      throw error;
    }
    if (next.status === "error") stopChildren(next, scope);
    return next;
  };
  return Object.assign(actor, { transition: supervised }) as Machine;
}

/**
 * The same machine with one more child, started before the others, with the machine's context as
 * its input.
 */
function withChild(
  { config, implementations }: AnyStateMachine,
  id: string,
  src: AnyActorLogic,
): AnyStateMachine {
  const child = { id, src, input: ({ context }: { context: unknown }) => context };
  const invoke = [child, ...[config.invoke ?? []].flat()];
  return createMachine({ ...config, invoke } as never, implementations as never);
}

function stopChildren({ children }: AnyMachineSnapshot, scope: AnyActorScope): void {
  const started = Object.values<AnyActorRef | undefined>(children);
  for (const child of started.reverse()) if (child !== undefined) scope.stopChild(child);
}

/** The clock option of `createActor`. */
export function actorClock(clock: Clock) {
  return {
    setTimeout: (task: () => void, delayMs: number): Cancel => clock.after(delayMs, task),
    /** xstate also cancels timers that it never set. */
    clearTimeout: (cancel: Cancel | undefined): void => cancel?.(),
  };
}

/** The error thrown on request. Like any unknown error, its recovery is: restore. */
export class InjectedError extends Error {
  constructor(reason: string) {
    super(reason);
    this.name = "InjectedError";
  }
}

interface ThrowEvent {
  readonly type: "chaos.throw";
  readonly body: { readonly reason: string };
}

/** @throws InjectedError if the event is `chaos.throw` */
export function throwInjected(event: { readonly type: string }): void {
  if (event.type !== "chaos.throw") return;
  throw new InjectedError((event as ThrowEvent).body.reason);
}
