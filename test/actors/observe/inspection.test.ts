// The inspection of a run: the answers of its hosts, and the reason why a run stalls.

import test from "ava";
import { createActor, createMachine } from "xstate";
import { fencedTransport } from "../../../actors/cluster/elected-leader.ts";
import { openInspection } from "../../../actors/observe/inspection.ts";
import { Registry } from "../../../actors/run/state/registry.ts";
import { runLines, topLines } from "../../../cli/views/cluster-view.ts";
import { resolveJob } from "../../../src/job/job.ts";
import { decodeBody } from "../../../src/wire/messages/body.ts";
import type { Frame } from "../../../src/wire/messages/transport.ts";
import { startMembership, startSimulatedNetwork } from "../../helpers/clusters/actors.ts";
import { smallData, smallModel } from "../../helpers/clusters/clusters.ts";

test("inspection names a host that does not answer, and shows the state of the others", async (t) => {
  const simulated = startSimulatedNetwork();
  const { network } = simulated;
  const membership = startMembership({ devices: 1 });
  const about = { devices: 1, machine: "m", pid: 2, isLeaving: false };
  const identity = { arithmetic: "reference-1", version: "1.0.0" };
  membership.announce({ key: 7, ...about, ...identity });
  const tree = createActor(createMachine({ initial: "idle", states: { idle: {} } })).start();
  const registry = new Registry("r", () => {});
  const inspection = openInspection({ network, registry, membership, tree: () => tree });
  const pending = network.transport.request("osiris.c1.inspect.all", new Uint8Array(), {
    deadlineMs: 5000,
  });
  await simulated.pass(2000);
  const report = decodeBody(await pending) as Parameters<typeof topLines>[0];
  t.deepEqual(report.unresponsive, [1]);
  t.deepEqual(
    report.processes.map(({ host }) => host),
    [0],
  );
  t.is(topLines(report)[1], "No answer from host:1");
  const usual = { run: "r1", generation: 1, prefetch: 1, requests: 0, requestsMax: 4, tables: [] };
  const tiers = [
    { ...usual, actor: "tier:0", device: 0, state: "slow" as const, store: "rocksdb" as const },
    { ...usual, actor: "tier:1", device: 1, state: "serving" as const },
  ];
  const processes = report.processes.map((one) => ({ ...one, tiers }));
  const lines = topLines({ ...report, processes }).map((line) => line.trim());
  t.true(lines.includes("tier of device 0: slow (rocksdb)"));
  t.true(lines.includes("tier of device 1: serving"), "its store is not open yet");
  inspection.unsubscribe();
});

test("a request without a valid reply subject is counted as refused, and crashes nothing", async (t) => {
  const refused: string[] = [];
  const simulated = startSimulatedNetwork({ onCorrupt: (error) => refused.push(error.message) });
  const { transport } = simulated.network;
  const hearing = new Map<string, (frame: Frame) => void>();
  const network = {
    ...simulated.network,
    transport: {
      ...fencedTransport(
        transport,
        () => true,
        () => {},
        1,
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
  hearing.get(subject)?.({ ...frame, reply: "a.*" }); // nats-server permits such a reply subject.
  hearing.get(subject)?.(frame);
  await simulated.pass(2000);
  t.is(refused.length, 2);
});

test("inspection says why a stalled run waits, and shows no speed for it", async (t) => {
  const simulated = startSimulatedNetwork();
  const { network } = simulated;
  const tree = createActor(createMachine({ initial: "idle", states: { idle: {} } })).start();
  const registry = new Registry("r", () => {});
  openInspection({
    network,
    registry,
    membership: startMembership({ devices: 2 }),
    tree: () => tree,
  });
  const look = async () => {
    const deadlineMs = 5000;
    const pending = network.transport.request("osiris.c1.inspect.all", new Uint8Array(), {
      deadlineMs,
    });
    await simulated.pass(10);
    const report = decodeBody(await pending) as Parameters<typeof topLines>[0];
    return { lines: runLines(report), top: topLines(report), run: report.runs[0] };
  };
  const record = registry.add(resolveJob({ model: smallModel, data: smallData }));
  record.status = "running";
  const hosts = [{ host: 0, devices: 2 }];
  const started = { fromStep: 0, steps: 100, devices: 2, hosts, slices: [4, 4], arithmetic: "a" };
  record.append(1, { type: "run.started", ...started });
  const progress = { step: 40, steps: 100, loss: 0.5, samplesPerSecond: 900, repairedIds: [] };
  record.append(1, { type: "run.progress", ...progress });
  const tier = { device: 1, message: "its disk is slow" } as const;
  record.append(1, { type: "run.tier", ...tier, state: "slow" });
  const training = "step 40 of 100, loss 0.5000, 900 samples/s, generation 1, 2 devices";
  const before = await look();
  t.deepEqual(before.lines, [`r1 (job) running: ${training}`]);
  t.deepEqual(before.run?.alerts, [tier.message]);
  const pushLag = { batches: 3, oldestMs: 12 };
  record.append(1, { type: "run.progress", ...progress, pushLag, secondsLeft: 5 });
  const asynchronous = await look();
  const behind = "updates of 3 batches of a thread unconfirmed, the first for 12.0 ms";
  t.deepEqual(asynchronous.lines.slice(1), [`  servers: ${behind}`]);
  t.is(asynchronous.run?.secondsLeft, 5);

  record.append(1, { type: "run.tier", ...tier, state: "serving" });
  const reason = { name: "E", code: "PEER_LOST", message: "gone", recovery: "restore" as const };
  const at = new Date("2026-01-02T03:04:05Z");
  record.fail(1, { offender: "host:2", supervisor: "job:r1", context: "x", reason }, at);
  const still = "step 40 of 100, loss 0.5000, generation 1";
  const failed = await look();
  t.deepEqual(failed.lines, [`r1 (job) running: recovers: host:2 failed, ${still}`]);
  t.deepEqual(failed.run?.alerts, []);
  t.is(failed.top.at(-1), "  2026-01-02T03:04:05 r1: host:2 failed, lasts: gone");

  record.append(0, { type: "run.waiting", devices: 1, wanted: 2 });
  const waiting = "waits for devices: 1 there, 2 wanted";
  t.deepEqual((await look()).lines, [`r1 (job) running: ${waiting}, ${still}`]);

  record.append(2, { type: "run.started", ...started, fromStep: 30 });
  const recovered = { fromStep: 30, seconds: 3, memoryBytes: 0, storeBytes: 1, keptBytes: 0 };
  record.recovered(2, recovered, new Date("2026-01-02T03:04:08Z"));
  const after = await look();
  t.is(after.run?.standstill, undefined);
  const end = "restored at generation 2, step 30, after 3.00 s";
  t.is(after.top.at(-1), `  2026-01-02T03:04:05 r1: host:2 failed, ${end}: gone`);

  record.append(0, { type: "run.paused", step: 40 });
  t.deepEqual((await look()).lines, ["r1 (job) paused: step 40 of 100, loss 0.5000, generation 2"]);
});
