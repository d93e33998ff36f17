import test from "ava";
import { createActor, createMachine } from "xstate";
import { gated } from "../../actors/gate.ts";
import { openInspection } from "../../actors/inspection.ts";
import { Registry } from "../../actors/registry.ts";
import { topLines } from "../../cli/cluster-view.ts";
import { decodeBody } from "../../src/wire/body.ts";
import type { Frame } from "../../src/wire/transport.ts";
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

test("a question that names no subject for its answer is counted, and ends nothing", async (t) => {
  const refused: string[] = [];
  const simulated = startSimulatedNetwork({ onCorrupt: (error) => refused.push(error.message) });
  const { transport } = simulated.network;
  const hearing = new Map<string, (frame: Frame) => void>();
  const network = {
    ...simulated.network,
    transport: {
      ...gated(
        transport,
        () => true,
        () => {},
      ),
      subscribe(subject: string, receive: (frame: Frame) => void) {
        hearing.set(subject, receive);
        return { unsubscribe() {} };
      },
    },
  };
  const tree = createActor(createMachine({ initial: "idle", states: { idle: {} } })).start();
  const registry = new Registry("r", () => {});
  const membership = startMembership({ devices: 1 });
  openInspection({ network, registry, membership, tree: () => tree });
  const subject = "osiris.c1.inspect.all";
  const frame = { subject, payload: new Uint8Array(), headers: {} };
  hearing.get(subject)?.({ ...frame, reply: "a.*" }); // A nats-server lets it through.
  hearing.get(subject)?.(frame);
  await simulated.pass(2000);
  t.is(refused.length, 2);
});
