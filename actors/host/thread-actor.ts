// Actors with a thread: a device, a tier, a writer, a reader, a bridge and a worker each own one
// thread. This file has their common behaviour: the thread starts with its actor, its reports
// become events, its end is the event `thread.ended`, and it is killed when its actor ends.

import { type EventObject, fromCallback } from "xstate";
import { PeerLostError, RemoteError } from "../../src/errors/errors.ts";
import type { Launcher, Thread, ThreadEnd } from "../../src/ports/launcher.ts";
import { threadFile } from "../threads/thread-file.ts";
import type { ThreadTask } from "../threads/thread-program.ts";

/** The thread of an actor. */
export interface OwnThread<Command, Report> {
  readonly launcher: Launcher;
  readonly name: string;
  readonly task: ThreadTask;
  /** If given, the thread starts once the previous thread of this place has exited. */
  readonly place?: ThreadPlace;
  /** If given, the thread starts once this resolves, with the task that it resolves to. */
  readonly later?: Promise<ThreadTask> | undefined;
  /** Maps a report to an event of the actor; undefined: the report is no event. */
  eventOf(report: Report): EventObject | undefined;
  /** Wakes the thread after a command was sent. */
  wake?(command: Command): void;
  /** Sends commands that do not come from the actor. The returned function stops it. */
  feed?(send: (command: Command) => void): () => void;
  /** Called when the thread has exited, or was stopped before it started. */
  onEnded?(): void;
}

/** A place that at most one thread has at a time; passed from a thread to its successor. */
export interface ThreadPlace {
  /** Resolves when the last thread of this place has exited. */
  lastEnded: Promise<unknown>;
}

/** The event by which an actor sends its thread a command. */
export interface ThreadCommand<Command> {
  readonly type: "command";
  readonly command: Command;
}

/** The event that an actor receives once, when its thread has ended. */
export interface ThreadEnded {
  readonly type: "thread.ended";
  readonly end: ThreadEnd;
}

/** The callback logic to invoke: the thread runs while it is invoked, and is killed afterwards. */
export function threadLogic<Input, Command = never, Report = never>(
  threadOf: (input: Input) => OwnThread<Command, Report>,
) {
  return fromCallback<ThreadCommand<Command>, Input>(({ input, sendBack, receive }) => {
    const own = threadOf(input);
    const { launcher, name, place, later, eventOf, wake, feed, onEnded } = own;
    let thread: Thread<Command, Report> | undefined;
    let isStopped = false;
    const start = (task: ThreadTask) => {
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
    if (later !== undefined) void later.then(start);
    else if (place === undefined) start(own.task);
    else void place.lastEnded.then(() => start(own.task));
    const send = (command: Command) => {
      thread?.send(command);
      wake?.(command);
    };
    const stopFeeding = feed?.(send);
    receive(({ command }) => send(command));
    return () => {
      isStopped = true;
      stopFeeding?.();
      if (thread === undefined) onEnded?.();
      thread?.kill();
    };
  });
}

/**
 * The error of an actor whose thread ended: the thread's own error or, without one, a lost peer.
 */
export function lossOf(end: ThreadEnd, actor: string): RemoteError | PeerLostError {
  if (end.kind === "failed") return new RemoteError(end.error);
  return new PeerLostError(actor, end.kind === "lost" ? end.reason : endedByItself);
}

const endedByItself = "the thread exited unexpectedly";

/** Whether an actor failed because its thread exited without an error of its own. */
export function hasEndedByItself(error: unknown): boolean {
  return error instanceof PeerLostError && error.reason === endedByItself;
}
