// The doctor: its findings on this machine, at both kinds of brokers, and in directories.

import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { brokerChecks } from "../../../actors/doctor/doctor-checks.ts";
import { diagnosisLines } from "../../../cli/commands/cluster/doctor.ts";
import { type Diagnosis, diagnose, type JobOptions } from "../../../internal.ts";
import { clusterDeadlines, deadlinesOf, deadlineTree } from "../../../src/ports/deadlines.ts";
import type { ServerProbe } from "../../../src/wire/transports/probe.ts";
import { startDirectory } from "../../data/data-files.ts";
import { smallData, smallModel } from "../../helpers/clusters/clusters.ts";
import { startNatsServer } from "../../helpers/nats/nats.ts";
import { leavesOut, nativeKernels, natsServer, testIf } from "../../helpers/needs.ts";
import { runCli } from "../../helpers/processes/cli.ts";
import { lastJson, startCli } from "../../helpers/processes/start-cli.ts";
import { startBucketServer } from "../../objects/bucket-server.ts";

const stateOf = ({ checks }: Pick<Diagnosis, "checks">, name: string) =>
  checks.find((one) => one.name === name)?.state;

function startJob(t: ExecutionContext, more: Partial<JobOptions> = {}) {
  const home = startDirectory(t);
  const directory = join(home, "not", "there", "yet");
  const job: JobOptions = {
    model: smallModel,
    data: smallData,
    checkpoint: { directory },
    ...more,
  };
  return { home, job };
}

test.serial("the doctor runs every check on a job that fits, and leaves no file", async (t) => {
  const { home, job } = startJob(t, { stepDeadlineMs: 20_000 });
  const diagnosis = await diagnose({ job, devices: 1 });
  t.deepEqual(
    diagnosis.checks.filter(({ state }) => state === "fail"),
    [],
  );
  t.true(diagnosis.isHealthy);
  for (const name of [
    "Node",
    "SSD store",
    "cores",
    "open files",
    "clock",
    "memory",
    "checkpoints: rename",
  ]) {
    t.is(stateOf(diagnosis, name), "ok", name);
  }
  t.is(stateOf(diagnosis, "broker JetStream"), "warn", "the embedded broker has no JetStream");
  t.is(stateOf(diagnosis, "broker max_payload"), "ok");
  t.true(diagnosis.checks.every(({ state, advice }) => state === "ok" || advice !== undefined));
  t.is(diagnosis.deadlines.find(({ name }) => name === "stall")?.ms, 40_000);
  t.deepEqual(readdirSync(home), []);
});

test.serial("the doctor fails a job that is too large, and an impossible directory", async (t) => {
  const tables = [{ name: "a", rows: 2 ** 31 - 1, dim: 1024 }];
  const large = startJob(t, { model: { ...smallModel, kind: "dlrm", tables, bottom: [1024] } });
  const written = { ...large.job, sharding: "as-written" as const };
  const diagnosis = await diagnose({ job: written });
  t.false(diagnosis.isHealthy);
  t.is(stateOf(diagnosis, "memory"), "fail");
  // A run that plans its placement puts tables into the backing store, unless partial recovery
  // forbids it.
  const partial = { ...large.job.checkpoint, partial: {} };
  const bounded = { ...large.job, mode: "bounded" as const, checkpoint: partial };
  t.is(stateOf(await diagnose({ job: large.job }), "memory"), "warn");
  t.is(stateOf(await diagnose({ job: bounded }), "memory"), "fail");
  t.is(stateOf(diagnosis, "checkpoints: space"), "fail");

  const { home, job } = startJob(t);
  writeFileSync(join(home, "file"), "");
  const checkpoint = { directory: join(home, "file", "checkpoints") };
  t.is(stateOf(await diagnose({ job: { ...job, checkpoint } }), "checkpoints: sync"), "fail");
});

test("the checks of a broker warn or fail by its version, access, distance and clock", (t) => {
  const probe: ServerProbe = {
    ...{ address: "nats://far:4222", version: "2.12.0", payloadBytesMax: 2 ** 20 },
    ...{ hasJetStream: true, mustLogin: true, isEncrypted: true, isLocal: false },
    ...{ connectMs: 5, roundTripMs: 0.4, aheadMs: -3 },
  };
  t.true(brokerChecks(probe).every(({ state }) => state === "ok"));
  const assess = (change: Partial<ServerProbe>) =>
    brokerChecks({ ...probe, ...change })
      .filter(({ state }) => state !== "ok")
      .map(({ name, state }) => `${state} ${name}`);
  t.deepEqual(assess({ payloadBytesMax: 65_536 }), ["fail broker max_payload"]);
  t.deepEqual(assess({ payloadBytesMax: 64 * 2 ** 20 }), ["warn broker max_payload"]);
  t.deepEqual(assess({ roundTripMs: 60 }), ["warn broker round trip"]);
  t.deepEqual(assess({ roundTripMs: 300 }), ["fail broker round trip"]);
  t.deepEqual(assess({ aheadMs: 5000 }), ["warn broker clock"]);
  t.deepEqual(assess({ mustLogin: false, isEncrypted: false }), [
    "warn broker login",
    "warn broker encryption",
  ]);
  t.deepEqual(assess({ mustLogin: false, isEncrypted: false, isLocal: true }), []);
});

test("every deadline is a share of the step deadline, and at most its parent deadline", (t) => {
  for (const stepDeadlineMs of [100, 2000, 30_000, 86_400_000]) {
    const tree = deadlineTree({ stepDeadlineMs });
    const ms = deadlinesOf({ stepDeadlineMs });
    for (const { name, within, ms: own } of tree) {
      t.is(own, ms[name as keyof typeof ms]);
      if (within !== undefined) t.true(own <= ms[within as keyof typeof ms], name);
    }
    t.is(ms.step, stepDeadlineMs);
  }
});

test("the doctor lists a cluster's deadlines: the heartbeat, and when a host counts as lost", (t) => {
  const lines = diagnosisLines({
    checks: [],
    deadlines: clusterDeadlines(),
    ...{ isHealthy: true, isJobFit: true },
  }).join("\n");
  t.regex(lines, /0\.25 s {2}a host sends a heartbeat/);
  t.regex(lines, /1\.25 s {2}a host without a heartbeat counts as lost/);
  t.regex(lines, /5\.00 s {2}the same, while the host assembles/);
});

testIf(natsServer).serial("the doctor checks a nats-server: JetStream, login, clock", async (t) => {
  const store = startDirectory(t);
  await using server = await startNatsServer(["-js", "-sd", store, "--auth", "secret"]);
  const diagnosis = await diagnose({ nats: server.url, token: "secret" });
  t.is(stateOf(diagnosis, "broker JetStream"), "ok");
  t.is(stateOf(diagnosis, "broker login"), "ok");
  // On a busy machine the round trip is slow.
  t.true(["ok", "warn"].includes(stateOf(diagnosis, "broker round trip") ?? ""));
  const refused = await diagnose({ nats: server.url, token: "wrong" });
  t.is(stateOf(refused, "broker"), "fail");
});

test.serial("osiris doctor prints its findings, and exits with 1 if a check fails", async (t) => {
  const { home } = startJob(t);
  const away = await runCli(["doctor", "--nats", "nats://127.0.0.1:1", "--json"], home);
  t.is(away.code, 1, away.stderr);
  t.is(stateOf(lastJson<Diagnosis>(away), "broker"), "fail");
  const environment = ["env", "OSIRIS_NATS=nats://127.0.0.1:1", "OSIRIS_SETS=sparc"];
  const named = await startCli(["doctor"], home, environment).ended;
  t.regex(named.stdout, /^fail +broker .*127\.0\.0\.1:1/m, "OSIRIS_NATS names the broker");
  if (!leavesOut(t, nativeKernels)) {
    t.regex(named.stdout, /^fail +kernels +OSIRIS_SETS asks for the instruction set `sparc`/m);
  }
  const here = await runCli(["doctor"], home);
  t.is(here.code, 0, here.stdout);
  t.regex(here.stdout, /^ok +Node/m);
  t.regex(here.stdout, /^ok +broker +no broker was named/m);
  t.regex(here.stdout, /^ +30 s {2}a device waits/m);
  t.regex(here.stdout, /^ +60 s {2}the coordinator waits for the next step/m);
});

test.serial("the doctor tests an object store, and reports what an unfit store did", async (t) => {
  const server = await startBucketServer(t, { isUnfenced: true });
  const diagnosis = await diagnose({ store: "s3://bucket/checkpoints", devices: 1 });
  t.false(diagnosis.isHealthy);
  t.true(diagnosis.isJobFit);
  t.is(stateOf(diagnosis, "store: create, then again"), "fail");
  t.is(stateOf(diagnosis, "store: read after write"), "ok");
  t.is(stateOf(diagnosis, "store: large objects"), "ok");
  t.regex(diagnosisLines(diagnosis).join("\n"), /refused \(STORE_UNFENCED\): use a store that/);
  t.deepEqual(server.bucket.keys, ["checkpoints/store.json"]);
  const missing = await diagnose({ store: "s3://nowhere/checkpoints", devices: 1 });
  t.is(stateOf(missing, "store"), "fail");
});
