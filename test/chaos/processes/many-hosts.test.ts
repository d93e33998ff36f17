// Several processes train the same model as one process, through kills, pauses and joins.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import {
  breakableLauncher,
  type Cluster,
  Host,
  type HostOptions,
  type JobOptions,
} from "../../../index.ts";
import { startDirectory } from "../../data/data-files.ts";
import {
  calmResult,
  inEpochs,
  only,
  runJob,
  smallModel,
  startTestCluster,
} from "../../helpers/clusters/clusters.ts";
import { equalsCalm, startCluster } from "../../helpers/clusters/either-clusters.ts";
import { testAll, testIf } from "../../helpers/needs.ts";
import { startHost, untilHosts } from "../../helpers/processes/host-processes.ts";
import { until } from "../../helpers/until.ts";

const mixedTables: NonNullable<JobOptions["model"]["tables"]> = [
  { name: "a", rows: 200, dim: 8 },
  { name: "b", rows: 200, dim: 8, sharding: "data-parallel" },
  { name: "c", rows: 200, dim: 8, pooling: "mean", rowBlocks: 4, sharding: "table-row-wise" },
];

/**
 * A job with tables on one device, on all devices, and by rows on one host's devices, and with
 * dropout.
 */
const mixed: Partial<JobOptions> = {
  model: {
    ...smallModel,
    tables: mixedTables,
    dropout: 0.1,
  },
};

/** The same job, with two tables in tiers that have almost no memory. */
const below: Partial<JobOptions> = {
  model: {
    ...mixed.model,
    tables: mixedTables.map((table) => ({
      ...table,
      tier: table.sharding === "data-parallel" ? "memory" : "cached",
    })),
  } as JobOptions["model"],
  tiers: { hbmBytes: 1, ddrBytes: 1 },
};

/** Joins a host in this process. */
function joinHere(cluster: Cluster, options: Partial<HostOptions>): Promise<Host> {
  const secret = cluster.token === undefined ? {} : { token: cluster.token };
  return Host.join({ nats: cluster.url, ...secret, ...options });
}

for (const arithmetic of ["auto", "reference"] as const) {
  testIf(testAll).serial(
    `2 processes of 2 devices train the model of one process of 4, with tiers: ${arithmetic}`,
    async (t) => {
      await using one = await startTestCluster(4);
      const job = { ...mixed, arithmetic };
      const { result: calm } = await runJob(one, one.job(job));
      await using place = await startTestCluster(0, { minDevices: 4 });
      await startHost(t, place.cluster);
      await startHost(t, place.cluster);
      const { result, events } = await runJob(place, place.job({ ...job, ...below }));
      t.is(result.digest, calm.digest);
      t.deepEqual(result.history, calm.history);
      // There is one generation, unless a busy machine starved a host until it counted as lost.
      const codes = only(events, "run.incident").map(({ error }) => error.code);
      t.deepEqual(codes, new Array(result.generation - 1).fill("PEER_LOST"));
      t.deepEqual(only(events, "run.started")[0]?.hosts, [
        { host: 1, devices: 2 },
        { host: 2, devices: 2 },
      ]);
    },
  );
}

test.serial(
  "P2: hosts may be killed, and come back: the model is that of one process, with tiers",
  async (t) => {
    await using one = await startCluster(2);
    const { result: calm } = await runJob(one, one.job(mixed));
    await using place = await startTestCluster(0, { minDevices: 4 });
    const { cluster } = place;
    const first = await startHost(t, cluster);
    const second = await startHost(t, cluster);
    // Missing heartbeats reveal a dead host; with this deadline a slow step on a busy machine is no
    // failure.
    const job = place.job({ ...mixed, ...below, stepDeadlineMs: 120_000 });
    let killed = 0;
    const { result, events } = await runJob(place, job, async (event) => {
      if (event.type === "run.checkpointed" && killed === 0) {
        first.kill("SIGKILL");
        killed = 1;
      }
      if (event.type !== "run.recovered" || killed !== 1) return;
      second.kill("SIGKILL"); // No host is left: the run waits for a new one.
      killed = 2;
      await startHost(t, cluster);
    });
    t.is(result.digest, calm.digest);
    t.deepEqual(result.history, calm.history);
    // A busy machine may starve a live host until it counts as lost and joins again under the next
    // index, so the test checks only the killed hosts.
    const started = only(events, "run.started").map(({ hosts }) => hosts.map(({ host }) => host));
    t.deepEqual(started[0], [1, 2]);
    t.is(started.at(-1)?.length, 1);
    t.false(started.at(-1)?.some((host) => host === first.host || host === second.host));
    const lost = only(events, "run.incident").map(
      ({ offender, error }) => `${offender} ${error.code}`,
    );
    t.true(lost.includes("host:1 PEER_LOST") && lost.includes("host:2 PEER_LOST"), lost.join());
    t.true(
      lost.every((one) => one.endsWith(" PEER_LOST")),
      lost.join(),
    );
    const seconds = only(events, "run.recovered").map((event) => event.seconds.toFixed(1));
    t.log(`recovery, s: ${seconds.join(" ")}`);
  },
);

testIf(testAll).serial(
  "P10: two hosts survive the loss of their broker, a reader and a bridge; the cluster closes",
  async (t) => {
    await using place = await startTestCluster(1, { minDevices: 2 });
    const threads = breakableLauncher();
    await using _host = await joinHere(place.cluster, { devices: 1, launcher: threads.launcher });
    const waits = { stepDeadlineMs: 60_000 };
    const brokerless = await runJob(place, place.job(waits), async (event) => {
      if (event.type === "run.checkpointed" && event.step <= 20) await place.cluster.killBroker();
    });
    await equalsCalm(t, brokerless.result, calmResult());
    t.deepEqual(only(brokerless.events, "run.incident"), [], "a lost broker costs no step");

    const { result, events } = await runJob(place, place.job(waits), (event) => {
      if (event.type === "run.started" && event.generation === 1) threads.kill("reader:1");
      if (event.type === "run.checkpointed" && event.generation === 1) threads.kill("bridge:1");
    });
    await equalsCalm(t, result, calmResult());
    t.is(result.generation, 2);
    t.deepEqual(
      only(events, "run.incident").map(({ offender, supervisor }) => `${supervisor} ${offender}`),
      ["host:1 reader:1", "host:1 bridge:1"],
    );

    const run = await place.cluster.submit(
      place.job({ data: { epochs: 50 } as JobOptions["data"] }),
    );
    for await (const event of run.events()) if (event.type === "run.checkpointed") break;
    t.true(threads.running().includes("device:1"));
    await place.cluster.close();
    await until("the end of the host's threads", () => threads.running().length === 0);
    t.pass("no thread of the host is left");
  },
);

testIf(testAll).serial(
  "a host that is told to end leaves in order, and the run continues without it",
  async (t) => {
    await using place = await startTestCluster(0, { minDevices: 4 });
    const { cluster } = place;
    await startHost(t, cluster);
    const second = await startHost(t, cluster);
    let isTold = false; // A second signal would end the host at once.
    const { result, events } = await runJob(place, inEpochs(place.job(), 8), (event) => {
      if (event.type !== "run.checkpointed" || isTold) return;
      isTold = true;
      second.kill("SIGTERM");
    });
    t.is((await second.ended).code, 0);
    await equalsCalm(t, result, calmResult(8));
    t.deepEqual(only(events, "run.incident"), []);
    t.like(only(events, "run.scaled"), [{ from: 4, to: 2 }]);
    await untilHosts(cluster, [1]);
  },
);

test.serial("hosts leave when the file of their spot machine appears", async (t) => {
  await using place = await startTestCluster(0);
  const { cluster } = place;
  const drainFile = join(startDirectory(t), "drain");
  const more = ["--drain-file", drainFile, "--health-port", "0"];
  const there = await startHost(t, cluster, { devices: 1, more });
  await using here = await joinHere(cluster, { devices: 1, drainFile });
  await untilHosts(cluster, [there.host, await here.joined]);
  const served = JSON.parse(await there.line((one) => one.includes('"health"')));
  const readiness = await fetch(served.url);
  t.deepEqual([readiness.status, await readiness.text()], [200, `host:${there.host}\n`]);
  t.is((await fetch(served.url.replace("readyz", "other"))).status, 404);
  writeFileSync(drainFile, "");
  const line = await there.line((one) => one.includes('"draining"'));
  const reason = `the file ${drainFile} is there`;
  t.deepEqual(JSON.parse(line), { report: "draining", reason, seconds: 25 });
  await here.closed;
  t.is((await there.ended).code, 0);
  await untilHosts(cluster, []);
});

test.serial("a run that waits for devices may be cancelled", async (t) => {
  await using place = await startTestCluster(0);
  const run = await place.cluster.submit(place.job());
  for await (const event of run.events()) if (event.type === "run.waiting") await run.cancel();
  t.like(await run.status(), { status: "cancelled", error: { code: "RUN_CANCELLED" } });
});
