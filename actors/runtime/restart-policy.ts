// The restart policy: decides what a supervisor does when a child ends, following OTP. A pure
// function of the children, the history and the time. The supervisor stops and starts the children,
// waits, and keeps the history.
//
// Invariants
//   R1. Children start in the order of the list and stop in reverse.
//   R2. An error that a restart cannot repair is escalated at once, whatever the limits.
//   R3. More than `restartsMax` restarts within `windowMs` are escalated: a bug must not loop.
//   R4. A child that ended for good (temporary; or transient, normally) is not restarted, even when
//       a sibling restarts the group.

import { strict as assert } from "node:assert";
import {
  type ErrorRecord,
  RemoteError,
  RestartLimitError,
  recordError,
} from "../../src/errors/errors.ts";

/** A child of a supervisor. */
export interface Child {
  readonly id: string;
  /** permanent: always. transient: after an error. temporary: never. */
  readonly restart: "permanent" | "transient" | "temporary";
}

/** The children that restart together: the failed one, all, or the failed one and all after it. */
export type Strategy = "one-for-one" | "one-for-all" | "rest-for-one";

/** The configuration of a supervisor. */
export interface RestartPolicy {
  /** Its name, for the error that it escalates. */
  readonly supervisor: string;
  readonly strategy: Strategy;
  /** In starting order. */
  readonly children: readonly Child[];
  readonly intensity: { readonly restartsMax: number; readonly windowMs: number };
  /**
   * The k-th restart in a row waits min(maxMs, baseMs * factor^(k-1)). A window without restarts
   * sets k back to 1.
   */
  readonly backoff: { readonly baseMs: number; readonly factor: number; readonly maxMs: number };
}

/** The history of a supervisor. Plain data; begin with `emptyHistory`. */
export interface RestartHistory {
  /** Times of the restarts within the window. */
  readonly restartsAtMs: readonly number[];
  /** Restarts since the last window without any. */
  readonly streak: number;
  /** Children that ended for good. */
  readonly ended: readonly string[];
}

/** How a child ended. Times are milliseconds of one clock. */
export type ChildEnd =
  | { readonly child: string; readonly atMs: number; readonly reason: "normal" }
  | {
      readonly child: string;
      readonly atMs: number;
      readonly reason: "error";
      readonly error: ErrorRecord;
    };

/** The actions of the supervisor after a child's end. */
export type Decision =
  | {
      readonly escalate: false;
      /** Running children to stop, in this order. */
      readonly stop: readonly string[];
      /** Children to start `delayMs` after that, in this order. */
      readonly start: readonly string[];
      readonly delayMs: number;
      readonly history: RestartHistory;
    }
  | { readonly escalate: true; readonly cause: ErrorRecord };

/** The history of a new supervisor. */
export const emptyHistory: RestartHistory = { restartsAtMs: [], streak: 0, ended: [] };

/** Decides about `end`. Asserts that its child belongs to the policy and had not ended for good. */
export function decide(policy: RestartPolicy, history: RestartHistory, end: ChildEnd): Decision {
  const index = policy.children.findIndex((child) => child.id === end.child);
  const child = policy.children[index];
  assert(child !== undefined, `${end.child} is a child of ${policy.supervisor}`);
  assert(!history.ended.includes(child.id), `${child.id} has not ended before`);
  if (end.reason === "error" && end.error.recovery === "stop") {
    return { escalate: true, cause: end.error }; // R2
  }
  const isOver =
    child.restart === "temporary" || (child.restart === "transient" && end.reason === "normal");
  if (isOver) {
    const ended = [...history.ended, child.id];
    return { escalate: false, stop: [], start: [], delayMs: 0, history: { ...history, ended } };
  }
  return restart(policy, history, end, index);
}

function restart(
  { supervisor, strategy, children, intensity, backoff }: RestartPolicy,
  history: RestartHistory,
  end: ChildEnd,
  index: number,
): Decision {
  const { restartsMax, windowMs } = intensity;
  const earlier = history.restartsAtMs.filter((atMs) => end.atMs - atMs <= windowMs);
  const restartsAtMs = [...earlier, end.atMs];
  if (restartsAtMs.length > restartsMax) {
    const cause = end.reason === "error" ? { cause: new RemoteError(end.error) } : undefined;
    const error = new RestartLimitError(supervisor, restartsMax, windowMs, cause);
    return { escalate: true, cause: recordError(error) }; // R3
  }
  const streak = earlier.length === 0 ? 1 : history.streak + 1;
  const group = children.filter((child, at) => {
    if (history.ended.includes(child.id)) return false; // R4
    return (
      strategy === "one-for-all" || at === index || (strategy === "rest-for-one" && at > index)
    );
  });
  const temporary = group.filter((child) => child.restart === "temporary").map(({ id }) => id);
  const ids = group.map(({ id }) => id);
  return {
    escalate: false,
    stop: ids.filter((id) => id !== end.child).reverse(), // R1
    start: ids.filter((id) => !temporary.includes(id)),
    delayMs: delayOf(backoff, streak),
    history: { restartsAtMs, streak, ended: [...history.ended, ...temporary] },
  };
}

function delayOf({ baseMs, factor, maxMs }: RestartPolicy["backoff"], streak: number): number {
  if (baseMs === 0) return 0;
  return Math.min(maxMs, baseMs * factor ** (streak - 1));
}
