import test from "ava";
import { createActor, createMachine } from "xstate";
import { openInspection } from "../../actors/inspection.ts";
import { Registry } from "../../actors/registry.ts";
import { topLines } from "../../cli/cluster-view.ts";
import { decodeBody } from "../../src/wire/body.ts";
import { startMembership, startSimulatedNetwork } from "../helpers/actors.ts";

test("a host that does not answer is named, and the others' state is told", async (t) => {
  const simulated = startSimulatedNetwork();
  const { network } = simulated;
  const membership = startMembership({ devices: 1 });
  const about = { devices: 1, machine: "m", pid: 2, isLeaving: false };
  const identity = { arithmetic: "reference-1", version: "1.0.0" };
  membership.announce({ key: 7, ...about, ...identity });
  const tree = createActor(createMachine({ initial: "idle", states: { idle: {} } })).start();
  const registry = new Registry("r", () => {});
  const inspection = openInspection({ network, registry, membership, tree: () => tree });
  const asked = network.transport.request("osiris.c1.inspect.all", new Uint8Array(), {
    deadlineMs: 5000,
  });
  await simulated.pass(2000);
  const report = decodeBody(await asked) as Parameters<typeof topLines>[0];
  t.deepEqual(report.silent, [1]);
  t.deepEqual(
    report.processes.map(({ host }) => host),
    [0],
  );
  t.is(topLines(report)[1], "No answer from host:1");
  inspection.unsubscribe();
});
