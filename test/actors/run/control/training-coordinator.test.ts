// The training coordinator alone: heartbeats, lost hosts, and an unreachable broker.

import test from "ava";
import { comparedLosses } from "../../../../actors/run/control/heartbeat-progress.ts";
import { trainingCoordinatorMachine } from "../../../../actors/run/control/training-coordinator.ts";
import { Registry } from "../../../../actors/run/state/registry.ts";
import type { Network } from "../../../../actors/runtime/mailbox.ts";
import {
  scope,
  smallGenerationSpec,
  startActor,
  startMembership,
  startSimulatedNetwork,
} from "../../../helpers/clusters/actors.ts";

const self = { role: "coordinator", index: 0 } as const;
const devices = [0, 1].map((index) => ({ role: "device" as const, index }));

/**
 * A coordinator with ready devices. With `joined` hosts they have not been commanded to run yet.
 */
async function startRunning(
  overrides: Partial<Network> = {},
  given: { readonly joined?: number; readonly cached?: number } = {},
) {
  const { joined = 0, cached = joined } = given;
  const place = startSimulatedNetwork(overrides);
  const { network, say, pass } = place;
  const { job, data } = smallGenerationSpec();
  const registry = new Registry("r", () => {});
  const membership = startMembership({ devices: 2 });
  for (let key = 0; key < joined; key++) {
    const process = { machine: "elsewhere", pid: 1, devices: 2 };
    membership.announce({
      ...process,
      key,
      arithmetic: "reference-1",
      version: "1.0.0",
      isLeaving: false,
    });
  }
  const hosts = membership.sharesFor("r", 8);
  const record = registry.add(job);
  const input = { network, scope, job, hosts, membership, store: {} as never, record };
  const { ends } = startActor(place, trainingCoordinatorMachine, {
    ...input,
    latest: undefined,
    failedAtMs: undefined,
  });
  say(self, "host.prepared", {
    command: 1,
    plan: data,
    placement: { report: { by: "as-written" } },
  });
  await pass(0);
  for (let host = 1; host <= cached; host++) say(self, "host.cached", { command: 1, host });
  await pass(0);
  for (let index = 0; index < membership.devices; index++) {
    const restored = { memoryBytes: 0, storeBytes: 0, keptBytes: 0 };
    const set = index === 0 ? "neon" : "avx2";
    say(self, "device.ready", { device: index, step: 0, arithmetic: "native-3", set, restored });
  }
  await pass(0);
  return { ...place, membership, record, ends };
}

const beat = (step: number) => ({
  host: 0,
  beat: 1,
  isBridged: true,
  tiers: [],
  waits: [],
  steps: [step, step],
  lossFrom: 0,
  losses: [],
  meters: { devices: [], reading: [0, 0] },
});

test("the command to run is repeated until heartbeats show it, and again when it is done", async (t) => {
  const { heard, say, pass } = await startRunning();
  const beats = async (steps: readonly number[]) => {
    for (const step of steps) {
      say(self, "host.progress", beat(step));
      await pass(250);
    }
    return devices.map((device) => heard(device).filter(({ type }) => type === "device.run"));
  };
  const countOf = (runs: readonly unknown[][]) => runs.map(({ length }) => length);
  const repeats = countOf(await beats([0, 0, 0, 0, 0]));
  t.true(
    repeats.every((count) => count >= 2),
    "no step was done, so the command is repeated: it may be lost",
  );
  const during = countOf(await beats([1, 2, 3, 4, 5, 6, 7, 8, 9]));
  t.deepEqual(during, repeats);
  const command = heard(devices[0] ?? self).find(({ type }) => type === "device.run");
  const toStep = (command?.body as { readonly toStep: number } | undefined)?.toStep ?? 0;
  const done = await beats(new Array(10).fill(toStep));
  t.true(
    countOf(done).every((count, i) => count > (during[i] ?? 0)),
    "the window is over, so the command is repeated: the answer may be lost",
  );
  for (const runs of done) {
    t.is(new Set(runs.map(({ body }) => (body as { command: number }).command)).size, 1);
  }
});

test("a run's start names each instruction set of its devices once", async (t) => {
  const { record } = await startRunning();
  const started = record.since(0, 100).find(({ type }) => type === "run.started");
  t.like(started, { devices: 2, arithmetic: "native-3", sets: ["avx2", "neon"] });
});

test("further hosts are requested to index files together with the first host", async (t) => {
  const { heard, say, pass } = await startRunning({}, { joined: 1 });
  say(self, "host.preparing", { fraction: 0, part: "training" });
  await pass(0);
  const requestsTo = (index: number) =>
    heard({ role: "host", index }).filter(({ type }) => type === "host.index");
  t.deepEqual(requestsTo(0), []);
  t.like(requestsTo(1)[0]?.body, { part: "training", share: 1, hosts: 2 });
});

test("a fast generation publishes losses of steps that a slow one publishes, too", (t) => {
  const between = (from: number, to: number) => {
    const losses = Array.from({ length: to - from }, (_, at) => from + at + 1);
    return comparedLosses({ lossFrom: from, losses });
  };
  t.deepEqual(
    between(5, 8),
    [6, 7, 8].map((step) => ({ step, loss: step })),
  );
  const slow = [between(100, 130), between(130, 160)].flat().map(({ step }) => step);
  const fast = between(100, 160).map(({ step }) => step);
  t.deepEqual(fast, [104, 112, 120, 128, 136, 144, 152, 160]);
  t.true(fast.every((step) => slow.includes(step)));
  t.true(between(0, 1024).length <= 8);
  t.deepEqual(between(5, 5), []);
});

test("no generation is assembled before each further host has the caches of the first", async (t) => {
  const { heard, say, pass } = await startRunning({}, { joined: 2, cached: 1 });
  const requestsTo = (index: number, type: string) =>
    heard({ role: "host", index }).filter((message) => message.type === type);
  await pass(3000); // The request is repeated to the host that has not answered.
  t.is(requestsTo(0, "host.cache").length, 0);
  t.is(requestsTo(1, "host.cache").length, 1);
  t.true(requestsTo(2, "host.cache").length >= 3);
  const caches = [{ part: "training", path: "nowhere", digest: "" }];
  t.like(requestsTo(2, "host.cache")[0]?.body, { caches });
  t.is(requestsTo(2, "host.assemble").length, 0);
  say(self, "host.cached", { command: 1, host: 2 });
  await pass(0);
  t.is(requestsTo(2, "host.assemble").length, 1);
});

test("a host that is silent for a second is lost", async (t) => {
  const { ends, say, pass } = await startRunning();
  say(self, "host.progress", beat(1));
  await pass(740);
  await pass(240);
  t.is(ends.error, undefined);
  await pass(30);
  t.like(ends.error, { code: "PEER_LOST", actor: "host:0" });
});

test("the wait for a host ends when the host is lost", async (t) => {
  const { ends, network, pass } = await startRunning();
  for (let i = 0; i < 6; i++) await pass(250);
  t.like(ends.error, { code: "PEER_LOST" });
  t.deepEqual(network.waits.waits("r1"), []);
});

test("a full checkpoint disk raises one alert, with the longest wait", async (t) => {
  const { record, say, pass } = await startRunning();
  for (const device of [0, 1]) say(self, "writer.room", { device, isAwaited: true });
  await pass(0);
  const alerts = record.since(0).filter(({ type }) => type === "run.alert");
  t.is(alerts.length, 1);
  t.like(alerts[0], { code: "CHECKPOINT_DISK_FULL" });
  t.regex(JSON.stringify(alerts[0]), /is full: the run waits for free space, at most 240 s/);
  t.is(record.roomAwaited.size, 2);
  for (const device of [0, 1]) say(self, "writer.room", { device, isAwaited: false });
  await pass(0);
  t.is(record.roomAwaited.size, 0);
});

test("a cancelled run ends even if the disk has no room for its checkpoint", async (t) => {
  const { ends, record, say, pass } = await startRunning();
  record.isCancelRequested = true;
  say(self, "writer.room", { device: 0, isAwaited: true });
  await pass(0);
  t.like(ends.error, { code: "RUN_CANCELLED" });
});

test("no host is lost while the broker is unreachable, and for a second after", async (t) => {
  let connectedForMs = 0;
  const { ends, pass } = await startRunning({ connectedForMs: () => connectedForMs });
  for (let i = 0; i < 20; i++) await pass(250);
  connectedForMs = 900;
  await pass(250);
  t.is(ends.error, undefined);
  connectedForMs = 1250;
  await pass(250);
  t.like(ends.error, { code: "PEER_LOST" });
});

test("devices that send heartbeats but make no steps fail after twice the step deadline", async (t) => {
  const { ends, say, pass } = await startRunning();
  for (let i = 0; i < 239; i++) {
    say(self, "host.progress", beat(0));
    await pass(250);
  }
  t.is(ends.error, undefined);
  for (let i = 0; i < 2; i++) {
    say(self, "host.progress", beat(0));
    await pass(250);
  }
  t.like(ends.error, { code: "STEP_TIMEOUT" });
});

test("each host must send heartbeats, and the error names the silent one", async (t) => {
  const { ends, say, pass } = await startRunning({}, { joined: 1 });
  for (const host of [0, 1]) say(self, "host.progress", { ...beat(0), host });
  await pass(0);
  for (let step = 1; step <= 5; step++) {
    say(self, "host.progress", beat(step));
    await pass(250);
  }
  t.like(ends.error, { code: "PEER_LOST", actor: "host:1" });
});

test("a host that leaves the membership fails the generation at once", async (t) => {
  const { ends, membership, pass } = await startRunning({}, { joined: 1 });
  membership.doubt(1);
  await pass(0);
  t.like(ends.error, { code: "PEER_LOST", actor: "host:1" });
});

test("devices of several hosts run once the hosts' bridges are connected", async (t) => {
  const { heard, say, pass } = await startRunning({}, { joined: 1 });
  const runs = () =>
    heard({ role: "device", index: 3 }).filter(({ type }) => type === "device.run");
  say(self, "host.progress", beat(0));
  say(self, "host.progress", { ...beat(0), host: 1, isBridged: false });
  await pass(0);
  t.is(runs().length, 0);
  say(self, "host.progress", { ...beat(0), host: 1 });
  await pass(0);
  t.is(runs().length, 1);
});
