// Membership in virtual time: which processes are hosts of the cluster, and when each is lost.

import test from "ava";
import { createActor } from "xstate";
import { hostsMachine } from "../../../actors/host/host-registry.ts";
import { joiningMachine } from "../../../actors/host/joining.ts";
import { type Announcement, type HostShare, Membership } from "../../../actors/host/membership.ts";
import { gathering } from "../../../actors/run/control/wait-for-hosts.ts";
import {
  type Address,
  clusterScope,
  type Network,
  openMailbox,
  type RunScope,
} from "../../../actors/runtime/mailbox.ts";
import type { ErrorRecord } from "../../../src/errors/errors.ts";
import { jobTextOf } from "../../../src/job/job.ts";
import {
  createFakeLauncher,
  type SimulatedNetwork,
  scope,
  smallGenerationSpec,
  startActor,
  startMembership,
  startSimulatedNetwork,
} from "../../helpers/clusters/actors.ts";

const announcement: Announcement = {
  key: 1,
  devices: 2,
  arithmetic: "reference-1",
  version: "1.0.0",
  machine: "elsewhere",
  pid: 7,
  isLeaving: false,
};

/** Sends a message that belongs to a generation, or to no run. */
function sayTo(
  { network, clock }: SimulatedNetwork,
  to: Address,
  type: string,
  body: unknown,
  of: RunScope = clusterScope,
) {
  const mailbox = openMailbox(network, of, { role: "cluster", index: 1 });
  mailbox.send(to, type as never, body as never);
  clock.advance(0);
}

const hosts = { role: "hosts", index: 0 } as const;

function startHosts(overrides: Partial<Network> = {}) {
  const place = startSimulatedNetwork(overrides);
  const membership = startMembership({ devices: 2 });
  const refused: ErrorRecord[] = [];
  const { network } = place;
  const onRefused = (_: Announcement, error: ErrorRecord) => refused.push(error);
  startActor(place, hostsMachine, { network, membership, onRefused });
  return {
    ...place,
    membership,
    refused,
    announce: (changes: Partial<Announcement> & { isAsking?: boolean | undefined } = {}) =>
      sayTo(place, hosts, "host.announce", { ...announcement, isAsking: true, ...changes }),
    indices: () => membership.present().map(({ host }) => host),
    answers: (key: number) => place.heard({ role: "joining", index: key }),
  };
}

test("each process has one host index, and no index is given twice", async (t) => {
  const { announce, answers, indices, pass } = startHosts();
  for (const key of [0, 1, 0]) announce({ key });
  await pass(0);
  const indicesOf = (key: number) =>
    answers(key).map(({ body }) => (body as { host: number }).host);
  t.deepEqual(indicesOf(0), [1, 1]);
  t.deepEqual(indicesOf(1), [2]);
  announce({ key: 1, isAsking: false });
  t.deepEqual(indicesOf(1), [2]);
  for (let beat = 0; beat < 6; beat++) {
    announce({ key: 1 });
    await pass(250);
  }
  t.deepEqual(indices(), [0, 2], "host 1 sent no heartbeat");
  announce({ key: 77 });
  t.deepEqual(indices(), [0, 2, 3]);
  announce({ key: 0 });
  t.deepEqual(indices(), [0, 1, 2, 3], "host 1 is back");
});

test("a host is lost at the fifth heartbeat that is missing while the broker is reachable", async (t) => {
  let connectedForMs = Number.POSITIVE_INFINITY;
  const { announce, indices, membership, pass } = startHosts({
    connectedForMs: () => connectedForMs,
  });
  let changes = 0;
  membership.onChange(() => changes++);
  announce();
  for (let beat = 0; beat < 4; beat++) await pass(250);
  t.deepEqual(indices(), [0, 1]);
  connectedForMs = 0; // The broker is unreachable.
  for (let beat = 0; beat < 20; beat++) await pass(250);
  t.deepEqual(indices(), [0, 1]);
  connectedForMs = 1000;
  await pass(250);
  t.deepEqual(indices(), [0]);
  t.is(changes, 2);
});

test("a host that assembles a generation is lost only after four times the silence", async (t) => {
  const { announce, indices, membership, pass } = startHosts();
  announce();
  const beats = async (count: number) => {
    for (let beat = 0; beat < count; beat++) await pass(250);
  };
  const assembled = membership.assemble([{ host: 1, devices: 2 }]);
  await beats(19);
  t.deepEqual(indices(), [0, 1], "a host that assembles may be silent");
  assembled();
  t.deepEqual(indices(), [0, 1], "the answer counts as a heartbeat");
  await beats(5);
  t.deepEqual(indices(), [0], "the usual limit applies again");
  announce();
  const again = membership.assemble([{ host: 1, devices: 2 }]);
  await beats(20);
  t.deepEqual(indices(), [0], "silent for too long, even so");
  again();
  t.deepEqual(indices(), [0]);
});

test("the cluster option `hostSilenceMs` sets the silence after which a host is lost", async (t) => {
  const membership = new Membership({
    ...{ minDevices: 1, joinDeadlineMs: 1000, hostSilenceMs: 3000, own: undefined },
    ...{ arithmetic: announcement.arithmetic, version: announcement.version },
  });
  membership.announce(announcement);
  for (let beat = 0; beat < 11; beat++) membership.beat();
  t.is(membership.devices, 2);
  membership.beat();
  t.is(membership.devices, 0);
});

test("a leaving host joins no new generation, and may exit once no generation holds it", async (t) => {
  const { announce, answers, membership, pass } = startHosts();
  announce();
  const letGo = membership.hold(membership.sharesFor("r", 8));
  announce({ isLeaving: true });
  t.deepEqual(membership.sharesFor("r", 8), [{ host: 0, devices: 2 }]);
  t.is(membership.devices, 2);
  t.true(membership.has(1), "a generation still holds it");
  letGo();
  announce({ isLeaving: true });
  await pass(0);
  const said = answers(announcement.key).map(
    ({ body }) => (body as { mayLeave: boolean }).mayLeave,
  );
  t.deepEqual(said, [false, false, true]);
});

test("a host that leaves is removed at once; a doubted host is removed until it announces itself", async (t) => {
  const place = startHosts();
  const { announce, indices, membership } = place;
  announce();
  membership.doubt(1);
  t.deepEqual(indices(), [0]);
  announce();
  t.deepEqual(indices(), [0, 1]);
  sayTo(place, hosts, "host.leave", { key: 1 });
  t.deepEqual(indices(), [0]);
  membership.doubt(0);
  t.deepEqual(indices(), [0], "the cluster's own host is never doubted");
});

test("a process with another version or arithmetic is refused, and the error names both", async (t) => {
  const { announce, answers, indices, pass, refused } = startHosts();
  announce({ version: "1.0.1", isAsking: undefined }); // A version without that field.
  announce({ arithmetic: "native-3" });
  await pass(0);
  const errors = answers(1).map(({ body }) => (body as { error: ErrorRecord }).error);
  t.deepEqual(errors, refused);
  t.like(errors[0], { name: "VersionMismatchError", code: "VERSION_MISMATCH", recovery: "stop" });
  t.regex(errors[0]?.message ?? "", /version 1\.0\.0 .* has 1\.0\.1: install the same one/);
  t.is(errors[1]?.code, "ARITHMETIC_MISMATCH");
  t.regex(errors[1]?.message ?? "", /`reference-1`, this process has `native-3`/);
  t.deepEqual(indices(), [0]);
});

test("a cluster has at most 128 hosts; a lost host makes room for another", (t) => {
  const membership = startMembership({ devices: 0 });
  const join = (key: number) => membership.announce({ ...announcement, key });
  for (let key = 0; key < 128; key++) join(key);
  t.throws(() => join(128), { code: "INVALID_OPTION", message: /at most 128 in a cluster/ });
  membership.doubt(5);
  t.is(join(128), 129);
  t.is(membership.present().length, 128);
});

test("devices are allocated as whole hosts in index order, and a part of the last one", (t) => {
  const membership = startMembership({ devices: 1 });
  membership.announce({ ...announcement, key: 1, devices: 3 });
  membership.announce({ ...announcement, key: 2, devices: 3 });
  t.is(membership.devices, 7);
  t.deepEqual(membership.sharesFor("r", 5), [
    { host: 0, devices: 1 },
    { host: 1, devices: 3 },
    { host: 2, devices: 1 },
  ]);
  t.deepEqual(membership.sharesFor("r", 1), [{ host: 0, devices: 1 }]);
});

// A joining process ----

function startJoining() {
  const place = startSimulatedNetwork();
  const { launcher, threads } = createFakeLauncher();
  const joinedAs: (number | undefined)[] = [];
  const leave = { isAsked: false, mayLeave: 0 };
  const input = {
    network: place.network,
    launcher,
    announcement: () => ({ ...announcement, isLeaving: leave.isAsked }),
    onMayLeave: () => leave.mayLeave++,
  };
  const { ends } = startActor(place, joiningMachine, {
    ...input,
    onHost: (host: number | undefined) => joinedAs.push(host),
  });
  const self = { role: "joining", index: 1 } as const;
  return {
    ...place,
    ends,
    threads,
    joinedAs,
    leave,
    welcome: (host: number, mayLeave = false) =>
      sayTo(place, self, "host.welcome", { host, mayLeave }),
    refuse: (error: ErrorRecord) => sayTo(place, self, "host.refused", { error }),
    assemble: (host: number, generation: number) => {
      const shares = [{ host, devices: 2 }];
      const spec = { ...smallGenerationSpec(), generation, hosts: shares };
      const to = { role: "host", index: host } as const;
      const body = { job: jobTextOf(spec.job), assembly: JSON.stringify(spec) };
      sayTo(place, to, "host.assemble", { command: 1, ...body }, spec);
    },
  };
}

test("a process announces itself at every heartbeat, before and after it is welcomed", async (t) => {
  const { heard, pass, welcome } = startJoining();
  for (let beat = 0; beat < 2; beat++) await pass(250);
  welcome(3);
  for (let beat = 0; beat < 7; beat++) await pass(250);
  const announced = heard(hosts).filter(({ type }) => type === "host.announce");
  const asking = [true, true, true, true, true, false, false, false, true, false];
  t.deepEqual(
    announced.map(({ body }) => body),
    asking.map((isAsking) => ({ ...announcement, isAsking })),
  );
});

test("a joined host serves under its index, and starts anew under another index", async (t) => {
  const { assemble, pass, threads, joinedAs, welcome, heard, ends } = startJoining();
  welcome(1);
  assemble(1, scope.generation);
  await pass(0);
  // This test writes no shared file, so the host cannot see one: it reports the missing file, and
  // stays a member.
  const [failed] = heard({ role: "coordinator", index: 0 });
  t.like(failed, { type: "host.failed", from: "host:1" });
  t.like(failed?.body, { host: 1, error: { code: "PATH_NOT_SHARED" } });
  welcome(0);
  assemble(1, scope.generation + 1);
  assemble(0, scope.generation + 2);
  await pass(0);
  t.deepEqual(threads.map(({ name }) => name).sort(), [
    "device-0",
    "device-1",
    "reader-0",
    "writer-0",
    "writer-1",
  ]);
  t.deepEqual(joinedAs, [1, 0]);
  t.is(ends.error, undefined);
});

test("a host that receives nothing from its cluster for 10 s ends its generation and waits", async (t) => {
  const { assemble, pass, threads, joinedAs, welcome } = startJoining();
  welcome(0);
  assemble(0, 1);
  await pass(9000);
  welcome(0);
  await pass(9990);
  t.true(threads.length > 0 && threads.every(({ isKilled }) => !isKilled));
  await pass(20);
  t.true(threads.every(({ isKilled }) => isKilled));
  t.deepEqual(joinedAs, [0, undefined]);
  welcome(0);
  t.deepEqual(joinedAs, [0, undefined, 0]);
});

test("a leaving host serves until the cluster says that no generation holds it", async (t) => {
  const { heard, leave, pass, welcome } = startJoining();
  welcome(1);
  leave.isAsked = true;
  await pass(250);
  t.like(heard(hosts).at(-1)?.body, { key: announcement.key, isLeaving: true });
  welcome(1);
  t.is(leave.mayLeave, 0);
  welcome(1, true);
  t.is(leave.mayLeave, 1);
});

test("a refused process ends with the reason", async (t) => {
  const { ends, refuse } = startJoining();
  refuse({
    name: "VersionMismatchError",
    code: "VERSION_MISMATCH",
    recovery: "stop",
    message: ".",
  });
  t.like(ends.error, { name: "VersionMismatchError", code: "VERSION_MISMATCH" });
});

// The hosts of a new generation ----

function startGathering(options: { wanted: number; most?: number; isElastic: boolean }) {
  const { clock, pass } = startSimulatedNetwork();
  const membership = startMembership({ devices: 0 });
  let waits = 0;
  const found: { shares?: readonly HostShare[]; error?: unknown } = {};
  const actor = createActor(gathering, {
    input: { clock, membership, run: "r", most: 8, ...options, onWait: () => waits++ },
  });
  actor.subscribe({
    next: ({ output }) => {
      if (output !== undefined) found.shares = output;
    },
    error: (error) => {
      found.error = error;
    },
  });
  actor.start();
  const join = (key: number) => membership.announce({ ...announcement, key });
  return { pass, membership, found, join, waits: () => waits };
}

const both = [
  { host: 1, devices: 2 },
  { host: 2, devices: 2 },
];

test("the first generation waits for all requested devices", async (t) => {
  const { found, join, pass, waits } = startGathering({ wanted: 4, isElastic: false });
  join(1);
  await pass(50_000);
  t.deepEqual(found, {});
  join(2);
  await pass(0);
  t.deepEqual(found.shares, both);
  t.is(waits(), 1);
});

test("the first generation fails at its deadline, and says how many devices are missing", async (t) => {
  const { found, join, pass } = startGathering({ wanted: 4, isElastic: false });
  join(1);
  await pass(60_000);
  t.like(found.error, { code: "HOSTS_MISSING" });
});

test("a later generation waits 2 s for a lost host, then starts without it", async (t) => {
  const { found, join, pass } = startGathering({ wanted: 4, isElastic: true });
  join(1);
  await pass(1990);
  t.deepEqual(found, {});
  await pass(20);
  t.deepEqual(found.shares, both.slice(0, 1));
});

test("a generation without any host waits for the first that joins", async (t) => {
  const { found, join, pass } = startGathering({ wanted: 4, isElastic: true });
  await pass(30_000);
  t.deepEqual(found, {});
  join(1);
  await pass(0);
  t.deepEqual(found.shares, both.slice(0, 1));
});
