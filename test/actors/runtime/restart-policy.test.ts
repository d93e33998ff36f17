// The restart strategies as functions: which children restart after a failure.

import test, { type ExecutionContext } from "ava";
import {
  type Child,
  type ChildEnd,
  type Decision,
  decide,
  emptyHistory,
  type RestartHistory,
  type RestartPolicy,
} from "../../../actors/runtime/restart-policy.ts";
import { InvalidOptionError, PeerLostError, recordError } from "../../../src/errors/errors.ts";

const lost = recordError(new PeerLostError("device:1", "the thread exited"));

const permanent = (...ids: string[]): Child[] =>
  ids.map((id) => ({ id, restart: "permanent" as const }));

function startPolicy(changes: Partial<RestartPolicy> = {}): RestartPolicy {
  return {
    supervisor: "host:0",
    strategy: "one-for-one",
    children: permanent("a", "b", "c", "d"),
    intensity: { restartsMax: 3, windowMs: 1000 },
    backoff: { baseMs: 10, factor: 2, maxMs: 1000 },
    ...changes,
  };
}

const failed = (child: string, atMs = 0): ChildEnd => ({
  child,
  atMs,
  reason: "error",
  error: lost,
});
const ended = (child: string, atMs = 0): ChildEnd => ({ child, atMs, reason: "normal" });

function restartOf(t: ExecutionContext, decision: Decision) {
  if (decision.escalate) return t.fail(`escalated: ${decision.cause.message}`) as never;
  return decision;
}

const orders = (decision: Decision) =>
  decision.escalate ? "escalate" : { stop: decision.stop, start: decision.start };

test("one-for-one restarts the failed child alone", (t) => {
  const decision = decide(startPolicy(), emptyHistory, failed("b"));
  t.deepEqual(orders(decision), { stop: [], start: ["b"] });
});

test("one-for-all stops the others in reverse and starts all in order", (t) => {
  const decision = decide(startPolicy({ strategy: "one-for-all" }), emptyHistory, failed("b"));
  t.deepEqual(orders(decision), { stop: ["d", "c", "a"], start: ["a", "b", "c", "d"] });
});

test("rest-for-one restarts the failed child and those started after it", (t) => {
  const decision = decide(startPolicy({ strategy: "rest-for-one" }), emptyHistory, failed("b"));
  t.deepEqual(orders(decision), { stop: ["d", "c"], start: ["b", "c", "d"] });
});

test("a permanent child that ends normally is restarted, a transient one is not", (t) => {
  const children: Child[] = [...permanent("a"), { id: "b", restart: "transient" }];
  const policy = startPolicy({ children });
  t.deepEqual(orders(decide(policy, emptyHistory, ended("a"))), { stop: [], start: ["a"] });
  t.deepEqual(orders(decide(policy, emptyHistory, failed("b"))), { stop: [], start: ["b"] });
  const decision = restartOf(t, decide(policy, emptyHistory, ended("b")));
  t.deepEqual(orders(decision), { stop: [], start: [] });
  t.deepEqual(decision.history, { restartsAtMs: [], streak: 0, ended: ["b"] });
});

test("a temporary child is not restarted after an error, and counts for no limit", (t) => {
  const children: Child[] = [...permanent("a"), { id: "b", restart: "temporary" }];
  const policy = startPolicy({ children, strategy: "one-for-all" });
  const decision = restartOf(t, decide(policy, emptyHistory, failed("b")));
  t.deepEqual(orders(decision), { stop: [], start: [] });
  t.deepEqual(decision.history.restartsAtMs, []);
});

test("a child that ended for good is neither stopped nor started with its siblings", (t) => {
  const children: Child[] = [
    { id: "a", restart: "transient" },
    { id: "b", restart: "temporary" },
    ...permanent("c", "d"),
  ];
  const policy = startPolicy({ children, strategy: "one-for-all" });
  const first = restartOf(t, decide(policy, emptyHistory, ended("a")));
  const second = restartOf(t, decide(policy, first.history, failed("c")));
  t.deepEqual(orders(second), { stop: ["d", "b"], start: ["c", "d"] });
  t.deepEqual(second.history.ended, ["a", "b"], "a stopped temporary sibling stays ended");
  const third = restartOf(t, decide(policy, second.history, failed("d")));
  t.deepEqual(orders(third), { stop: ["c"], start: ["c", "d"] });
});

test("an error that a restart cannot fix escalates at once, unchanged", (t) => {
  const error = recordError(new InvalidOptionError("model", "Expected a model"));
  for (const restart of ["permanent", "transient", "temporary"] as const) {
    const policy = startPolicy({ children: [{ id: "a", restart }] });
    const end: ChildEnd = { child: "a", atMs: 0, reason: "error", error };
    t.deepEqual(decide(policy, emptyHistory, end), { escalate: true, cause: error });
  }
});

/** Makes child "a" fail at each time; returns the last decision. */
function failAt(t: ExecutionContext, policy: RestartPolicy, ...times: number[]): Decision {
  let history: RestartHistory = emptyHistory;
  let decision: Decision | undefined;
  for (const atMs of times) {
    decision = decide(policy, history, failed("a", atMs));
    if (atMs !== times.at(-1)) history = restartOf(t, decision).history;
  }
  return decision ?? (t.fail("no times") as never);
}

test("one restart too many within the window escalates, with the last failure as cause", (t) => {
  const policy = startPolicy();
  t.false(failAt(t, policy, 0, 300, 600).escalate);
  const decision = failAt(t, policy, 0, 300, 600, 1000);
  if (!decision.escalate) return t.fail("expected an escalation");
  t.is(decision.cause.code, "RESTART_LIMIT");
  t.is(decision.cause.recovery, "stop");
  t.is(
    decision.cause.message,
    "Gave up after 3 restarts within 1 s; the last failure: " + "Lost device:1: the thread exited",
  );
});

test("the window of restarts slides: old restarts are forgotten one by one", (t) => {
  const policy = startPolicy();
  const decision = restartOf(t, failAt(t, policy, 0, 300, 600, 1001));
  t.deepEqual(decision.history.restartsAtMs, [300, 600, 1001]);
  t.true(failAt(t, policy, 0, 300, 600, 1001, 1300).escalate);
  t.false(failAt(t, policy, 0, 300, 600, 1001, 1301, 1601, 2002).escalate);
});

test("a limit of zero restarts escalates the first failure", (t) => {
  const policy = startPolicy({ intensity: { restartsMax: 0, windowMs: 1000 } });
  t.true(failAt(t, policy, 0).escalate);
});

test("the backoff doubles up to its limit, and starts again after a quiet window", (t) => {
  const policy = startPolicy({
    intensity: { restartsMax: 100, windowMs: 1000 },
    backoff: { baseMs: 10, factor: 2, maxMs: 60 },
  });
  const delay = (...times: number[]) => restartOf(t, failAt(t, policy, ...times)).delayMs;
  const times = [0, 100, 200, 300, 1250];
  t.deepEqual(
    times.map((_, index) => delay(...times.slice(0, index + 1))),
    [10, 20, 40, 60, 60],
  );
  t.is(delay(0, 100, 200, 1201), 10);
});

test("a backoff of zero stays zero however many failures follow each other", (t) => {
  const policy = startPolicy({ backoff: { baseMs: 0, factor: 2, maxMs: 60 } });
  const history = { restartsAtMs: [0], streak: 5000, ended: [] };
  t.is(restartOf(t, decide(policy, history, failed("a", 1))).delayMs, 0);
});

test("a decision does not change the restart history in place", (t) => {
  const history = Object.freeze({ restartsAtMs: Object.freeze([1]), streak: 1, ended: [] });
  t.deepEqual(restartOf(t, decide(startPolicy(), history, failed("a", 2))).history, {
    restartsAtMs: [1, 2],
    streak: 2,
    ended: [],
  });
});

test("the end of an unknown child is an assertion error", (t) => {
  t.throws(() => decide(startPolicy(), emptyHistory, failed("x")), { message: /x is a child/ });
});
