// Supervisors: starts, restarts and stops of their children.

import test from "ava";
import { fromCallback } from "xstate";
import type { Incident } from "../../../actors/runtime/incident.ts";
import { clusterScope, openMailbox } from "../../../actors/runtime/mailbox.ts";
import type { RestartPolicy } from "../../../actors/runtime/restart-policy.ts";
import { supervisorMachine } from "../../../actors/runtime/supervisor.ts";
import { NonFiniteLossError } from "../../../src/errors/errors.ts";
import { startActor, startSimulatedNetwork } from "../../helpers/clusters/actors.ts";

/** A supervisor of a, b and c that records their starts and stops. */
function startSupervisor(options: Partial<RestartPolicy> = {}) {
  const place = startSimulatedNetwork();
  const { network } = place;
  const changes: string[] = [];
  const incidents: string[] = [];
  const child = (id: string) =>
    fromCallback<{ type: string; error: unknown }>(({ receive }) => {
      changes.push(`+${id}`);
      receive(({ error }) => {
        throw error;
      });
      return () => changes.push(`-${id}`);
    });
  const { actor, ends } = startActor(place, supervisorMachine, {
    name: "boss",
    strategy: "one-for-one",
    intensity: { restartsMax: 3, windowMs: 10_000 },
    clock: network.clock,
    mailbox: openMailbox(network, clusterScope, { role: "cluster", index: 0 }),
    onRestart: ({ offender, supervisor }: Incident) =>
      incidents.push(`${offender} of ${supervisor}`),
    children: ["a", "b", "c"].map((id) => ({
      id,
      restart: "permanent",
      start: () => ({ logic: child(id), input: {} }),
    })),
    ...options,
  } as never);
  return {
    ...place,
    actor,
    ends,
    incidents,
    /** The recorded starts and stops since the last call. */
    changes: () => changes.splice(0),
    fail(id: string, error: unknown = new Error(`${id} fell`)) {
      actor.getSnapshot().children[id]?.send({ type: "fail", error });
    },
  };
}

test("a supervisor starts its children in order, and stops them in reverse", (t) => {
  const { actor, changes } = startSupervisor();
  actor.stop();
  t.deepEqual(changes(), ["+a", "+b", "+c", "-c", "-b", "-a"]);
});

test("one-for-one: the failed child restarts after the backoff", (t) => {
  const { fail, changes, clock, incidents } = startSupervisor();
  changes();
  fail("b");
  clock.advance(49);
  t.deepEqual(
    changes().filter((one) => one !== "-b"),
    [],
  );
  clock.advance(1);
  t.deepEqual(changes(), ["+b"]);
  t.deepEqual(incidents, ["b of boss"]);
});

test("rest-for-one: the children started after the failed one restart with it", (t) => {
  const { fail, changes, clock } = startSupervisor({ strategy: "rest-for-one" });
  changes();
  fail("b");
  t.deepEqual(
    changes().filter((one) => one !== "-b"),
    ["-c"],
  );
  clock.advance(50);
  t.deepEqual(changes(), ["+b", "+c"]);
});

test("an error that a restart cannot fix escalates at once, and every child is stopped", (t) => {
  const { fail, changes, ends } = startSupervisor();
  changes();
  fail("b", new NonFiniteLossError(3, Number.NaN));
  t.like(ends.error, { code: "NON_FINITE_LOSS", incident: { offender: "b", supervisor: "boss" } });
  t.deepEqual(
    changes().filter((one) => one !== "-b"),
    ["-c", "-a"],
  );
});

test("a supervisor fails after too many restarts, with the last failure in its error", (t) => {
  const { fail, clock, ends } = startSupervisor();
  for (let i = 0; i < 4; i++) {
    t.is(ends.error, undefined);
    fail("c");
    clock.advance(1000);
  }
  t.like(ends.error, { code: "RESTART_LIMIT" });
  t.regex(String(ends.error), /Gave up after 3 restarts.*c fell/);
});

test("a supervisor that fails itself stops its children", async (t) => {
  const { say, changes, ends, network, pass } = startSupervisor();
  changes();
  openMailbox(network, clusterScope, { role: "cluster", index: 1 }).send(
    { role: "cluster", index: 0 },
    "chaos.throw",
    { reason: "thrown here" },
  );
  await pass(0);
  t.like(ends.error, { message: "thrown here" });
  t.deepEqual(changes(), ["-c", "-b", "-a"]);
  t.notThrows(() => say({ role: "cluster", index: 0 }, "chaos.throw", { reason: "again" }));
});
