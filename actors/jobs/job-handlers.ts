// The handlers of the job service's methods (job-api.ts), on the runs of the registry. A change of
// a run is persisted, so that another leader would find it, before it is answered.

import { QuotaExceededError, RunStateError, StepTimeoutError } from "../../src/errors/errors.ts";
import { checkSchemes } from "../../src/job/check-placement.ts";
import { type JobSpec, resolvingJob } from "../../src/job/job.ts";
import { withCosts, withFiles, withModel } from "../../src/job/job-files.ts";
import { shownOptions } from "../../src/job/shown-job.ts";
import { mostDevices } from "../../src/planner/placement.ts";
import { checkOptions, expected } from "../../src/ports/check-options.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { deadlinesOf } from "../../src/ports/deadlines.ts";
import { longAsText } from "../../src/ports/json/exact-json.ts";
import { inTurns } from "../../src/ports/turns.ts";
import { eventsSubject } from "../../src/wire/messages/subjects.ts";
import { quotaOf } from "../../src/wire/tenancy/tenants.ts";
import { withWarmStart } from "../../storage/checkpoints/adopt-checkpoint.ts";
import { readRunLog } from "../../storage/cluster/run-log.ts";
import type { Membership } from "../host/membership.ts";
import type { Registry } from "../run/state/registry.ts";
import type { RunRecord } from "../run/state/run-record.ts";
import type { Network } from "../runtime/mailbox.ts";
import { withOwnCosts } from "../threads/data/own-costs.ts";
import { type Access, withinRoots } from "./allowed-paths.ts";
import { drainReader, limitReaders } from "./command-readers.ts";
import {
  type JobMethod,
  publishedSchemas,
  type ReplyOf,
  type RequestOf,
  type RunLine,
  requests,
} from "./job-api.ts";
import { freezeShard, moveShard, type PinChange, thawShard } from "./pin-shards.ts";
import { devicesWanted } from "./queue-order.ts";
import { checkTier, requestActor } from "./request-actor.ts";

export interface JobServiceInput {
  readonly network: Network;
  readonly registry: Registry;
  readonly membership: Membership;
  readonly access: Access;
}

/** Most runs of all tenants together that may wait or be paused. */
const queuedMax = 10_000;

/**
 * Time limit for a requested checkpoint, in step deadlines: it covers an evaluation, and writing
 * the checkpoint before it.
 */
export const checkpointDeadlines = 200;

/** The sender of a request: a tenant, or (undefined) the operator of the cluster. */
interface Caller {
  readonly input: JobServiceInput;
  readonly tenant: string | undefined;
}

type Handlers = {
  readonly [Method in JobMethod]: (
    caller: Caller,
    request: RequestOf<Method>,
  ) => ReplyOf<Method> | Promise<ReplyOf<Method>>;
};

const handlers: Handlers = {
  submit,
  list: ({ input: { registry }, tenant }, { after, most }) => {
    const runs: RunLine[] = [];
    const before = after === undefined ? undefined : registry.get(after);
    let isAfter = before === undefined || !isSeenBy(before, tenant);
    for (const record of registry.values()) {
      if (isAfter && isSeenBy(record, tenant)) {
        if (runs.length === most) return { runs, next: runs.at(-1)?.run };
        runs.push(lineOf(record));
      }
      isAfter ||= record === before;
    }
    return { runs };
  },
  status: (caller, { run }) => {
    const record = recordOf(caller, run);
    const { result, error, job } = record;
    const { stepDeadlineMs, checkpoint } = job;
    return {
      ...lineOf(record),
      directory: checkpoint.directory,
      incidents: record.incidents.all().slice(-incidentsMax),
      ...(result === undefined ? {} : { result }),
      ...(error === undefined ? {} : { error }),
      stepDeadlineMs,
      options: shownOptions(job),
    };
  },
  logs: (caller, { run, after, most }) => {
    const { directory } = recordOf(caller, run).job.checkpoint;
    const { lines, next } = readRunLog(directory, { run, after, most });
    return { lines: [...lines], next };
  },
  events: (caller, { run, since, most }) => ({ events: recordOf(caller, run).since(since, most) }),
  pause: (caller, { run }) => {
    const record = openRecord(caller, run, "pause");
    return change(caller, record, () => record.pause());
  },
  resume: (caller, { run }) => {
    const record = openRecord(caller, run, "resume");
    if (!record.isPauseRequested) throw new RunStateError(run, "resume", "paused", record.status);
    return change(caller, record, () => record.resume());
  },
  scale: async (caller, { run, devices }) => {
    const record = openRecord(caller, run, "scale");
    devicesThere(caller.input.membership, devices);
    const { devicesMax } = quotaOf(caller.input.access.tenants, record.tenant);
    if (devicesMax !== undefined && devices > devicesMax) {
      throw new QuotaExceededError(record.tenant, "devices", devicesMax);
    }
    const changed = await change(caller, record, () => record.scale(devices));
    return { ...changed, devices: Math.min(devices, mostDevices(record.job)) };
  },
  move: (caller, { run, shard, device }) =>
    pinned(caller, run, "move a shard of", (record) => moveShard(record, shard, device)),
  freeze: (caller, { run, shard }) =>
    pinned(caller, run, "freeze a shard of", (record) => freezeShard(record, shard)),
  thaw: (caller, { run, shard }) =>
    pinned(caller, run, "thaw a shard of", (record) => thawShard(record, shard)),
  flush: async (caller, { run, device }) => {
    const record = recordOf(caller, run);
    checkTier(record, device);
    const rows = await requestActor(caller.input.network, {
      ...{ record, type: "tier.flush", index: device },
      answerIn: ({ type, body }, command) =>
        type === "tier.flushed" && body.command === command ? body.rows : undefined,
      deadlineMs: deadlinesOf(record.job).persist,
    });
    return { run, device, rows };
  },
  rate: async (caller, { run, samplesPerSecond }) => {
    const record = openRecord(caller, run, "limit the readers of");
    const limited = () => limitReaders(record, samplesPerSecond);
    return { ...(await change(caller, record, limited)), samplesPerSecond };
  },
  drain: (caller, { run, reader }) =>
    drainReader(openRecord(caller, run, "drain a reader of"), reader, caller.input.network.clock),
  checkpoint: async (caller, { run }) => {
    const record = recordOf(caller, run);
    if (record.status !== "running") {
      throw new RunStateError(run, "checkpoint", "running", record.status);
    }
    return { run, ...(await nextCheckpoint(record, caller.input.network.clock)) };
  },
  cancel: (caller, { run }) => {
    const record = recordOf(caller, run);
    return change(caller, record, () => record.cancel());
  },
  schema: () => publishedSchemas(),
};

/** Validates and executes a request. @throws TrainingError with the reason of a refusal */
export async function handle<Method extends JobMethod>(
  input: JobServiceInput,
  method: Method,
  body: unknown,
  tenant: string | undefined,
): Promise<ReplyOf<Method>> {
  const request = checkOptions(requests[method], body) as RequestOf<Method>;
  return await handlers[method]({ input, tenant }, request);
}

/** The run of a job: a new run, or the run of an earlier request (Registry.find). */
async function submit(caller: Caller, request: RequestOf<"submit">): Promise<ReplyOf<"submit">> {
  const { input, tenant } = caller;
  const { registry, network } = input;
  const resolved = await inTurns(network.clock, resolvingJob(longAsText(request.job)));
  checkSchemes(resolved);
  const asIs = withinRoots(resolved, input.access, tenant);
  const { cacheBytesMax } = quotaOf(input.access.tenants, tenant);
  const bounded = withCachesOf(asIs, cacheBytesMax);
  const job = withWarmStart(withCosts(withModel(await withFiles(bounded))), network.disk);
  const of = { key: request.key, tenant };
  const known = registry.find(job, of);
  if (known === undefined) {
    // A repeated submission gets its first answer, whatever hosts have joined since.
    devicesThere(input.membership, job.devices);
    checkQuota(caller, job);
  }
  const record = known ?? registry.add(withOwnCosts(job, network.disk), of);
  await registry.kept();
  registry.changed();
  const { run, status } = record;
  return { run, status, events: eventsSubject(network.cluster, run, tenant) };
}

async function change(
  { input: { registry } }: Caller,
  record: RunRecord,
  apply: () => void,
): Promise<ReplyOf<"cancel">> {
  apply();
  await registry.kept();
  registry.changed();
  return { run: record.run, status: record.status };
}

/** Replaces the pins of a run; returns the shard. @throws InvalidOptionError, RunStateError */
async function pinned(
  caller: Caller,
  run: string,
  request: string,
  of: (record: RunRecord) => PinChange,
): Promise<ReplyOf<"move">> {
  const record = openRecord(caller, run, request);
  const { pins, shard } = of(record);
  const changed = await change(caller, record, () => {
    record.pins = pins;
  });
  return { ...changed, shard };
}

/** The job with each `cacheBytesMax` limited to `bytesMax`. */
function withCachesOf(job: JobSpec, bytesMax: number | undefined): JobSpec {
  if (bytesMax === undefined) return job;
  const bounded = <Data extends { readonly cacheBytesMax?: number | undefined }>(data: Data) => {
    return { ...data, cacheBytesMax: Math.min(bytesMax, data.cacheBytesMax ?? bytesMax) };
  };
  const { evaluation } = job;
  if (evaluation === undefined) return { ...job, data: bounded(job.data) };
  const { data, test } = evaluation;
  const held = {
    ...evaluation,
    ...(data && { data: bounded(data) }),
    ...(test?.data && { test: { ...test, data: bounded(test.data) } }),
  };
  return { ...job, data: bounded(job.data), evaluation: held };
}

/**
 * Devices that the cluster has or waits for. @throws InvalidOptionError if `devices` exceeds them
 */
function devicesThere(membership: Membership, devices: number): number {
  const most = Math.max(membership.devices, membership.minDevices);
  if (devices > most) throw expected("devices", `at most the cluster's, ${most}`, devices);
  return most;
}

/**
 * Checks the tenant's quota. @throws QuotaExceededError, InvalidOptionError if the job's priority
 * is too high
 */
function checkQuota({ input, tenant }: Caller, job: JobSpec): void {
  const { registry, membership, access } = input;
  const quota = quotaOf(access.tenants, tenant);
  const { queuedMax: ownMax = queuedMax, devicesMax = Number.POSITIVE_INFINITY } = quota;
  const { priorityMax = Number.POSITIVE_INFINITY } = quota;
  if (job.priority > priorityMax) {
    throw expected("priority", `at most the tenant's, ${priorityMax}`, job.priority);
  }
  const { active } = registry;
  if (active.waiting >= queuedMax) throw new QuotaExceededError(undefined, waitingRuns, queuedMax);
  if (active.waitingOf(tenant) >= ownMax) throw new QuotaExceededError(tenant, waitingRuns, ownMax);
  const wanted = devicesWanted({ devicesRequested: undefined, job }, membership);
  if (wanted > devicesMax) throw new QuotaExceededError(tenant, "devices", devicesMax);
}

const waitingRuns = "runs that wait for devices";

/** Requests a checkpoint, and resolves when it is committed. */
function nextCheckpoint(
  record: RunRecord,
  clock: Clock,
): Promise<{ readonly step: number; readonly digest: string }> {
  return new Promise((resolve, reject) => {
    const { run, job } = record;
    const deadlineMs = checkpointDeadlines * job.stepDeadlineMs;
    const settle = (end: () => void) => {
      cancel();
      forget();
      end();
    };
    const cancel = clock.after(deadlineMs, () =>
      settle(() => reject(new StepTimeoutError(`a checkpoint of run ${run}`, deadlineMs))),
    );
    const forget = record.onEvent((event) => {
      if (event.type === "run.checkpointed" && event.requested) {
        const { step, digest } = event;
        settle(() => resolve({ step, digest }));
      } else if (record.status !== "running") {
        settle(() => reject(new RunStateError(run, "checkpoint", "running", record.status)));
      } else if (event.type === "run.started") {
        record.requestCheckpoint(); // A failure may have prevented the requested one.
      }
    });
    record.requestCheckpoint();
  });
}

/**
 * Looks up a run of the tenant. A run of another tenant is reported as unknown, so that its
 * existence is not revealed. @throws InvalidOptionError
 */
function recordOf({ input, tenant }: Caller, run: string): RunRecord {
  const record = input.registry.get(run);
  if (record === undefined || !isSeenBy(record, tenant)) {
    throw expected("run", "the name of a run of this cluster", run);
  }
  return record;
}

/** Looks up a run that is not over. @throws InvalidOptionError, RunStateError */
function openRecord(caller: Caller, run: string, request: string): RunRecord {
  const record = recordOf(caller, run);
  if (record.isOver)
    throw new RunStateError(run, request, "queued, running or paused", record.status);
  return record;
}

/** Most incidents in a status: the newest. */
const incidentsMax = 20;

/** Whether the tenant may see the run. The operator sees all runs. */
function isSeenBy(record: RunRecord, tenant: string | undefined): boolean {
  return tenant === undefined || record.tenant === tenant;
}

function lineOf({ run, job, tenant, status, progress }: RunRecord): RunLine {
  const { name, priority } = job;
  return { run, name, ...(tenant === undefined ? {} : { tenant }), status, priority, ...progress };
}
