// The threads of actors: a device, a tier, a writer, a reader and a bridge each answer for one
// thread. Here is what the five have in common: the thread starts when its actor does, its reports
// are events, its end is the event `thread.ended`, and it is killed when its actor ends.

import { type EventObject, fromCallback } from "xstate";
import { PeerLostError, RemoteError } from "../../src/errors/errors.ts";
import type { Launcher, Thread, ThreadEnd } from "../../src/ports/launcher.ts";
import { threadFile } from "../threads/thread-file.ts";
import type { ThreadTask } from "../threads/thread-program.ts";

/** The thread that an actor answers for. */
export interface OwnThread<Command, Report> {
  readonly launcher: Launcher;
  readonly name: string;
  readonly task: ThreadTask;
  /** If given, the thread starts once the last thread of this place is gone. */
  readonly place?: ThreadPlace;
  /** The event that a report is to the actor; undefined for a report that is no event. */
  eventOf(report: Report): EventObject | undefined;
  /** Wakes the thread for a command that it was sent. */
  wake?(command: Command): void;
  /** Sends what does not come from the actor; returns how to stop. */
  feed?(send: (command: Command) => void): () => void;
  /** The thread's exit was seen. */
  onEnded?(): void;
}

/** A place that one thread at a time may have: what a thread leaves to its successor. */
export interface ThreadPlace {
  /** Resolves when the last thread here is gone. */
  lastEnded: Promise<unknown>;
}

/** By this event an actor sends its thread a command. */
export interface ThreadCommand<Command> {
  readonly type: "command";
  readonly command: Command;
}

/** The actor hears this once, when its thread has ended. */
export interface ThreadEnded {
  readonly type: "thread.ended";
  readonly end: ThreadEnd;
}

/** The logic to invoke: the thread lives for as long as it is invoked, and is killed afterwards. */
export function threadLogic<Input, Command = never, Report = never>(
  threadOf: (input: Input) => OwnThread<Command, Report>,
) {
  return fromCallback<ThreadCommand<Command>, Input>(({ input, sendBack, receive }) => {
    const { launcher, name, task, place, eventOf, wake, feed, onEnded } = threadOf(input);
    let thread: Thread<Command, Report> | undefined;
    let isStopped = false;
    const start = () => {
      if (isStopped) return;
      thread = launcher.start<Command, Report>(threadFile, task, name);
      thread.onReport((report) => {
        const event = eventOf(report);
        if (event !== undefined) sendBack(event);
      });
      void thread.ended.then((end) => {
        onEnded?.();
        sendBack({ type: "thread.ended", end });
      });
      if (place !== undefined) place.lastEnded = thread.ended;
    };
    if (place === undefined) start();
    else void place.lastEnded.then(start);
    const send = (command: Command) => {
      thread?.send(command);
      wake?.(command);
    };
    const stopFeeding = feed?.(send);
    receive(({ command }) => send(command));
    return () => {
      isStopped = true;
      stopFeeding?.();
      thread?.kill();
    };
  });
}

/** Why an actor fails with its thread: the thread's own error or, without one, a lost peer. */
export function lossOf(end: ThreadEnd, actor: string): RemoteError | PeerLostError {
  if (end.kind === "failed") return new RemoteError(end.error);
  return new PeerLostError(actor, end.kind === "lost" ? end.reason : endedByItself);
}

const endedByItself = "its thread ended by itself";

/** Whether an actor failed because its thread came to its end, with no error of its own. */
export function hasEndedByItself(error: unknown): boolean {
  return error instanceof PeerLostError && error.reason === endedByItself;
}
