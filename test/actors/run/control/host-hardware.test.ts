// Links between hosts: measured before the first plan for a set of machines, kept for later plans;
// a failed measurement does not stop a run.

import { join } from "node:path";
import test from "ava";
import { announcedSpeeds, chooseWay } from "../../../../actors/run/control/host-hardware.ts";
import { linkKeeper, readLinks } from "../../../../actors/threads/kept-constants.ts";
import type { Launcher, Thread } from "../../../../src/ports/launcher.ts";
import { startDirectory } from "../../../data/data-files.ts";
import { startMembership, startSimulatedNetwork } from "../../../helpers/clusters/actors.ts";
import { only, runJob } from "../../../helpers/clusters/clusters.ts";
import { calmRun } from "../../../helpers/clusters/either-clusters.ts";
import { startVirtualCluster } from "../../../helpers/clusters/virtual-clusters.ts";
import { setEnvironment } from "../../../helpers/environment.ts";

/** A keeper in a file of its own. */
function keeperIn(t: Parameters<typeof setEnvironment>[0]) {
  setEnvironment(t, { OSIRIS_CONSTANTS: "" });
  const directory = startDirectory(t);
  const path = join(directory, "deep", "links.json");
  const links = linkKeeper(path);
  if (links === undefined) throw new RangeError("Links are kept where no constants are named");
  return { path, links };
}

test.serial("two hosts measure their links once; later runs use stored figures", async (t) => {
  const { path, links } = keeperIn(t);
  let measured = 0;
  const over = (launcher: Launcher): Launcher => ({
    start(entry, data, name) {
      if (name === "links") measured++;
      return launcher.start(entry, data, name);
    },
  });
  await using place = startVirtualCluster(1, { minDevices: 2, links, over });
  await place.join(1);
  const found = [];
  for (const _ of [1, 2]) {
    const { result, events } = await runJob(place, place.job({ sharding: "auto", devices: 2 }));
    t.is(result.digest, (await calmRun()).digest);
    found.push(only(events, "run.started")[0]?.plan?.links);
  }
  t.is(measured, 1);
  const [kept] = readLinks(path);
  t.deepEqual(kept?.machines, ["host2", "leader"]);
  t.deepEqual(found, [kept?.measured, kept?.measured]);
  // Frames of this network take up to a millisecond.
  t.true((kept?.measured.roundSeconds ?? 0) > 1e-5, JSON.stringify(kept));
});

for (const [what, linkFaults, way, reason] of [
  [
    "direct links are faster",
    { delayMs: [0, 0.01] },
    "direct",
    /^measured: direct links take 1\/\d+\.\d\d of the/,
  ],
  ["direct links are slow", { delayMs: [8, 10] }, "broker", /^measured: .+ 1\/0\.\d\d of the/],
  ["direct links are too slow", { delayMs: [60, 70] }, "broker", /^it did not finish within 10 s$/],
  ["hosts refuse direct links", { refuse: 1 }, "broker", /connection refused$/],
] as const) {
  test.serial(
    `frames between hosts take the way that was measured as faster: ${what}`,
    async (t) => {
      const { path, links } = keeperIn(t);
      await using place = startVirtualCluster(1, { minDevices: 2, links, linkFaults });
      await place.join(1);
      const { result, events } = await runJob(place, place.job({ sharding: "auto", devices: 2 }));
      t.is(result.digest, (await calmRun()).digest);
      const [started] = only(events, "run.started");
      t.is(started?.links?.way, way);
      t.regex(started?.links?.reason ?? "", reason);
      const { direct, ...broker } = readLinks(path)[0]?.measured ?? {};
      t.deepEqual(started?.links?.measured as unknown, { broker, direct });
      t.deepEqual(started?.plan?.links as unknown, way === "direct" ? direct : broker);
      t.is(only(events, "run.link").length > 0, way === "direct");
    },
  );
}

test("an option chooses the way of frames; without a measurement direct links are tried", (t) => {
  const figures = { allToAll: 1e9, allReduce: 1e9, roundSeconds: 1e-4 };
  const slow = { ...figures, direct: { allToAll: 1e6, allReduce: 1e6, roundSeconds: 1e-2 } };
  t.is(chooseWay("direct", slow).way, "direct");
  t.is(chooseWay("auto", slow).way, "broker");
  t.is(chooseWay("broker", undefined).way, "broker");
  t.is(chooseWay("auto", undefined).way, "direct");
  t.is(chooseWay("auto", figures).way, "direct");
});

test.serial("a failed measurement of links is reported, and changes no bit", async (t) => {
  const { path, links } = keeperIn(t);
  const failing: Thread<never, never> = {
    send() {},
    ended: Promise.resolve({ kind: "lost", reason: "no link" }),
    kill() {},
    onReport() {},
    onObservation() {},
  };
  const over = (launcher: Launcher): Launcher => ({
    start: (entry, data, name) =>
      name === "links" ? (failing as never) : launcher.start(entry, data, name),
  });
  await using place = startVirtualCluster(1, { minDevices: 2, links, over });
  await place.join(1);
  const { result, events } = await runJob(place, place.job({ sharding: "auto", devices: 2 }));
  t.is(result.digest, (await calmRun()).digest);
  const [started] = only(events, "run.started");
  t.is(started?.plan?.by, "auto");
  t.regex(started?.plan?.note ?? "", /links between hosts were not measured \(.+\), and count as/);
  t.deepEqual(readLinks(path), []);
});

test.serial("stored link figures apply to a part of the machines on the broker", (t) => {
  const { path, links } = keeperIn(t);
  const own = { allToAll: 1e9, allReduce: 1e9, roundSeconds: 1e-4 };
  t.is(links.find(["a", "b"], "nats://m:1"), undefined);
  t.is(links.keep(["b", "a", "a"], "nats://user:secret@m:4222", own), undefined);
  t.deepEqual(links.find(["a", "b"], "nats://m:5"), own);
  t.deepEqual(links.find(["a", "a"], "m"), own);
  t.is(links.find(["b", "b"], "nats://m:1"), undefined);
  t.is(links.find(["a", "c"], "nats://m:1"), undefined);
  t.is(links.find(["a", "b"], "nats://n:1"), undefined);
  t.notRegex(JSON.stringify(readLinks(path)), /secret/);
  for (let i = 0; i < 40; i++) links.keep([`${i}`, "x"], "m", own);
  t.is(readLinks(path).length, 32);
});

test("devices of faster hosts get more slices; hosts on one machine share its cores", (t) => {
  const { network } = startSimulatedNetwork();
  const membership = startMembership({ devices: 0 });
  const join = (key: number, machine: string, devices: number, flops: number) => {
    const about = { arithmetic: "reference-1", version: "1.0.0", pid: 1, isLeaving: false };
    const hardware = { memoryBytes: 1e9, cores: 4, flops, lookups: 1e9 };
    const host = membership.announce({ key, machine, devices, ...about, hardware });
    return { host, devices };
  };
  const hosts = [join(1, "a", 1, 1e9), join(2, "b", 1, 2e9)];
  t.deepEqual([...announcedSpeeds({ network, hosts, membership })], [["2/0", 2]]);
  const shared = [join(3, "c", 4, 1e9), join(4, "c", 4, 1e9)];
  t.deepEqual([...announcedSpeeds({ network, hosts: shared, membership })], []);
  const slow = announcedSpeeds({ network, hosts: [...hosts.slice(0, 1), ...shared], membership });
  t.deepEqual(new Set(slow.values()), new Set([0.5]));
});
