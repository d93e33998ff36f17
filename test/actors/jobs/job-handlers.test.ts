// The job service's request handlers, without a broker: limits of the queue, quotas of tenants, and
// repeated submissions.

import test from "ava";
import { createActor } from "xstate";
import { handle, type JobServiceInput } from "../../../actors/jobs/job-handlers.ts";
import { runQueueMachine } from "../../../actors/jobs/run-queue.ts";
import { Registry } from "../../../actors/run/state/registry.ts";
import type { RunRecord } from "../../../actors/run/state/run-record.ts";
import type { JobOptions } from "../../../index.ts";
import { QuotaExceededError } from "../../../src/errors/errors.ts";
import { startMembership, startSimulatedNetwork } from "../../helpers/clusters/actors.ts";
import { smallData, smallModel } from "../../helpers/clusters/clusters.ts";

/** The job service of a cluster with `devices` devices; the runs in `registry` outlive it. */
function startService(
  devices: number,
  registry = new Registry("r", () => {}),
  tenants: JobServiceInput["access"]["tenants"] = {},
) {
  const { network } = startSimulatedNetwork();
  const membership = startMembership({ devices });
  const input: JobServiceInput = { network, registry, membership, access: { roots: {}, tenants } };
  const submit = (job: Partial<JobOptions>, more: { key?: string; tenant?: string } = {}) => {
    const { key, tenant } = more;
    const whole = { model: smallModel, data: smallData, ...job };
    return handle(input, "submit", { job: whole, ...(key === undefined ? {} : { key }) }, tenant);
  };
  return { input, registry, submit };
}

test("a repeated submission returns the run with its key, even if the devices are gone", async (t) => {
  const { registry, submit } = startService(2);
  const first = await submit({ devices: 2 }, { key: "k" });
  const fewer = startService(1, registry);
  t.is((await fewer.submit({ devices: 2 }, { key: "k" })).run, first.run);
  await t.throwsAsync(fewer.submit({ devices: 2 }, { key: "other" }), {
    message: /^Expected `devices` to be at most/,
  });
});

test("a tenant's queued runs, devices and priority are limited", async (t) => {
  const usual = { users: {}, requestsPerSecond: 100, requestBytesMax: 10_000, connectionsMax: 9 };
  const tenants = { ads: { ...usual, queuedMax: 2, devicesMax: 1, priorityMax: 5 } };
  const { input, submit: ask } = startService(2, undefined, tenants as never);
  const submit = (seed: number, devices = 1, priority = 5) =>
    ask({ seed, devices, priority }, { tenant: "ads" });
  const first = await submit(1);
  const second = await submit(2);
  t.is((await submit(2)).run, second.run, "the same job without a key is the same run");
  t.not(first.run, second.run);
  await t.throwsAsync(submit(3), {
    instanceOf: QuotaExceededError,
    message:
      "Tenant `ads` may have at most 2 runs that wait for devices: " +
      "wait until a run is over, cancel one, or ask for a larger quota",
  });
  await handle(input, "cancel", { run: second.run }, "ads");
  const record = input.registry.get(second.run);
  if (record !== undefined) record.status = "cancelled"; // As when its allocation ends.
  await t.throwsAsync(submit(4, 2), { message: /may have at most 1 devices/ });
  await t.throwsAsync(submit(4, 1, 6), {
    message: "Expected `priority` to be at most the tenant's, 5, got `6` (number)",
  });
  const scaled = handle(input, "scale", { run: first.run, devices: 2 }, "ads");
  await t.throwsAsync(scaled, { message: /may have at most 1 devices/ });
});

test("the caches of a tenant's jobs are limited to its quota, whatever the job options say", async (t) => {
  const usual = { users: {}, requestsPerSecond: 100, requestBytesMax: 10_000, connectionsMax: 9 };
  const tenants = { ads: { ...usual, cacheBytesMax: 1000 } };
  const { registry, submit } = startService(2, undefined, tenants as never);
  const boundsOf = async (cacheBytesMax: number | undefined, tenant?: string) => {
    const data = { kind: "synthetic" as const, samples: 64, dense: 4, batchSize: 8, cacheBytesMax };
    const evaluation = { data: { ...data, samples: 32 }, test: { data: { ...data, samples: 16 } } };
    const who = tenant === undefined ? {} : { tenant };
    const { run } = await submit({ data, evaluation, devices: 1 }, who);
    const job = registry.get(run)?.job;
    const all = [job?.data, job?.evaluation?.data, job?.evaluation?.test?.data];
    return all.map((one) => one?.cacheBytesMax);
  };
  t.deepEqual(await boundsOf(undefined, "ads"), [1000, 1000, 1000]);
  t.deepEqual(await boundsOf(7, "ads"), [7, 7, 7]);
  t.deepEqual(await boundsOf(2000, "ads"), [1000, 1000, 1000]);
  t.deepEqual(await boundsOf(2000), [2000, 2000, 2000]);
});

test("a run that crashed two leaders fails with RUN_SET_ASIDE, and the queue starts the others", async (t) => {
  const { input, registry, submit } = startService(2);
  const poison = await submit({ seed: 1, devices: 1 });
  const other = await submit({ seed: 2, devices: 1 });
  registry.crashes.restore({ kind: "request", run: poison.run, crashes: 2 });
  const queue = createActor(runQueueMachine, { input });
  queue.subscribe({ error: (error) => t.fail(String(error)) });
  queue.start();
  t.teardown(() => queue.stop());
  const { error, status } = registry.get(poison.run) ?? {};
  t.is(status, "failed");
  t.is(error?.code, "RUN_SET_ASIDE");
  t.regex(error?.message ?? "", /^Run r1 was set aside: 2 leaders ended while they prepared it/);
  t.is(registry.get(other.run)?.status, "running");
  t.is(registry.crashes.of(other.run), 1, "counted from the start of a run");
});

test("a requested checkpoint that a failure prevents is requested of the next generation", async (t) => {
  const { input, registry, submit } = startService(1);
  const { run } = await submit({});
  const record = registry.get(run) as RunRecord;
  record.status = "running";
  const answer = handle(input, "checkpoint", { run }, undefined);
  t.true(record.isCheckpointRequested);
  record.isCheckpointRequested = false; // As when the devices have taken the cut.
  const error = { name: "Error", code: "PEER_LOST", message: "m", recovery: "restore" as const };
  const where = { offender: "host:1", supervisor: `job:${run}`, context: "training" };
  record.append(1, { type: "run.incident", incident: 1, at: "", ...where, error });
  const places = { hosts: [{ host: 0, devices: 1 }], slices: [8] };
  record.append(2, {
    type: "run.started",
    ...{ fromStep: 0, steps: 9, devices: 1, arithmetic: "a", ...places },
  });
  t.true(record.isCheckpointRequested);
  const checkpoint = { digest: "d", best: false, requested: true, bytes: 0 } as const;
  record.append(2, { type: "run.checkpointed", step: 1, ...checkpoint, stallMs: 0, waitedMs: 0 });
  t.like(await answer, { run, step: 1, digest: "d" });
});

test("a run's status lists the job's options, without credentials or signatures in URLs", async (t) => {
  const { input, submit } = startService(2);
  const secret = "https://ada:pass@example.org/a.csv?signature=abc";
  const data = {
    ...{ kind: "csv" as const, paths: [secret], label: "click", batchSize: 64 },
    ...{ dense: ["d0", "d1", "d2", "d3"], categorical: ["a", "b"] },
  };
  const tables = ["a", "b"].map((name) => ({ name, rows: 100, dim: 8 }));
  const model = { kind: "dlrm" as const, dense: 4, tables, bottom: [8, 8], top: [8, 1] };
  const { run } = await submit({ model, data, devices: 1 });
  const { options = [] } = await handle(input, "status", { run }, undefined);
  const of = (option: string) => options.find((one) => one.option === option)?.value;
  t.is(of("data.paths"), "https://example.org/a.csv");
  t.is(of("model.bottom"), "8, 8");
  t.is(of("model.tables"), "2 tables, 200 rows, dimension 8: a, b");
  t.regex(of("model.tables.b") ?? "", /^rows 100, dim 8/);
  t.is(of("data.batchSize"), "64");
  t.false(JSON.stringify(options).includes("abc"));
});
