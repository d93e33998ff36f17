// Job service: what the world may ask of a cluster, over NATS, in JSON or msgpack: whatever a
// request is written in, its answer is too.
//
//   osiris.<cluster>.jobs.submit   { job, key? }          → { run, status, events }
//   osiris.<cluster>.jobs.status   { run }                → { run, name, status, result?, error? }
//   osiris.<cluster>.jobs.list     { }                    → { runs: [ … ] }
//   osiris.<cluster>.jobs.events   { run, since?, most? } → { events: [ … ] }
//   osiris.<cluster>.jobs.cancel   { run }                → { run, status }
//   osiris.<cluster>.jobs.scale    { run, devices }       → { run, status, devices }
//   osiris.<cluster>.jobs.schema   { }                    → { version, job, requests, event }
//
// A request that cannot be served is answered { error: { code, message } }; where options are
// wrong, it has `problems` too: { option, message } of each. Events of a run are published on
// osiris.<cluster>.runs.<run>.events, as JSON, numbered by `seq` without gaps.
//
// A tenant asks on osiris.<cluster>.jobs.<tenant>.<verb>: it knows its own runs and no others, and
// their events are told on osiris.<cluster>.runs.<tenant>.<run>.events. Who may use which subject
// is the broker's to say.
//
// Whoever looks for services finds it, as `osiris-<cluster>` (service-discovery.ts).
//
// Invariants
//   S1. Every request is answered, whatever is in it.
//   S2. It holds nothing: runs are in the registry. It may die at any time.

import { hostname } from "node:os";
import { fromCallback, setup } from "xstate";
import { z } from "zod";
import { type ErrorRecord, InvalidOptionError, recordError } from "../src/errors.ts";
import { jobJsonSchema, resolveJob } from "../src/job.ts";
import { checkOptions, expected } from "../src/options.ts";
import { contentTypeOf, decodeBody, encodeBody } from "../src/wire/body.ts";
import { eventsSubject, jobsSubject, tenantOf, tenantsPattern } from "../src/wire/subjects.ts";
import type { Frame } from "../src/wire/transport.ts";
import { type ThrowEvent, throwInjected } from "./chaos-throw.ts";
import { tenantName } from "./connect.ts";
import { downWithChildren } from "./down-with-children.ts";
import { listening } from "./listening.ts";
import { clusterScope, type Mailbox, type Network, openMailbox } from "./mailbox.ts";
import type { Membership } from "./membership.ts";
import type { Registry } from "./registry.ts";
import { runEventSchema } from "./run-events.ts";
import type { RunRecord } from "./run-record.ts";
import { openDiscovery, type ServiceIdentity } from "./service-discovery.ts";
import { packageVersion } from "./version.ts";

export interface JobServiceInput {
  readonly network: Network;
  readonly registry: Registry;
  readonly membership: Membership;
}

const run = z.string().min(1).max(128);
const requests = {
  submit: z.strictObject({ job: z.unknown(), key: z.string().min(1).max(256).optional() }),
  status: z.strictObject({ run }),
  list: z.strictObject({}),
  events: z.strictObject({
    run,
    since: z.int().min(0).default(0),
    most: z.int().min(1).max(500).default(100),
  }),
  cancel: z.strictObject({ run }),
  scale: z.strictObject({ run, devices: z.int().min(1) }),
  schema: z.strictObject({}),
} as const;

/** Of the requests and of the job, as they are published. Grows when one of them is changed. */
const schemaVersion = 1;
const queue = "jobs";

export type JobVerb = keyof typeof requests;

/** Answers requests for as long as it is invoked. */
const serving = fromCallback<{ type: string }, JobServiceInput>(({ input }) => {
  const { transport, cluster } = input.network;
  const verbs = Object.keys(requests) as JobVerb[];
  const endpoints = verbs.map((verb) => {
    return { name: verb, subject: jobsSubject(cluster, verb), queue };
  });
  const discovery = openDiscovery(input.network, identityOf(cluster), endpoints);
  const answer = (verb: JobVerb) => (frame: Frame) => {
    const { reply } = frame;
    if (reply === undefined) return;
    const given = discovery.count(verb, () => answerOf(input, verb, frame), refusalOf);
    const { payload, headers } = encodeBody(given.body, contentTypeOf(frame));
    transport.publish(reply, payload, { headers: { ...headers, ...errorHeaders(given) } });
  };
  const subscriptions = endpoints.flatMap(({ name: verb, subject }) =>
    [subject, tenantsPattern(cluster, verb)].map((asked) =>
      transport.subscribe(asked, answer(verb), { queue }),
    ),
  );
  return () => {
    discovery.close();
    for (const subscription of subscriptions) subscription.unsubscribe();
  };
});

function identityOf(cluster: string): ServiceIdentity {
  return {
    name: `osiris-${cluster}`,
    id: `${hostname()}-${process.pid}`.replace(/[^A-Za-z0-9_-]/g, "-"),
    version: packageVersion(),
    description: "Takes jobs that train recommendation models, and tells how they do",
    metadata: { cluster, schemaVersion: String(schemaVersion) },
  };
}

const machine = setup({
  types: {} as {
    context: JobServiceInput & { readonly mailbox: Mailbox };
    input: JobServiceInput;
    events: ThrowEvent;
  },
  actors: { listening, serving },
  actions: { throwInjected },
}).createMachine({
  id: "jobService",
  context: ({ input }) => ({
    ...input,
    mailbox: openMailbox(input.network, clusterScope, { role: "jobs", index: 0 }),
  }),
  invoke: [
    { src: "listening", input: ({ context }) => context },
    { src: "serving", input: ({ context }) => context },
  ],
  on: { "chaos.throw": { actions: "throwInjected" } },
  initial: "serving",
  states: { serving: {} },
});

/** As drawn above; its children end with it. */
export const jobServiceMachine = downWithChildren(machine);

interface Answer {
  readonly body: unknown;
  /** Why it was refused. */
  readonly refusal?: ErrorRecord;
}

/** S1 */
function answerOf(input: JobServiceInput, verb: JobVerb, frame: Frame): Answer {
  try {
    const tenant = checkOptions(tenantName.optional(), tenantOf(frame.subject), "tenant");
    return { body: serve(input, verb, decodeBody(frame) ?? {}, tenant) };
  } catch (error) {
    const refusal = recordError(error);
    const { code, message } = refusal;
    const wrong =
      error instanceof InvalidOptionError
        ? { option: error.option, problems: error.problems }
        : undefined;
    return { body: { error: { code, message, ...wrong } }, refusal };
  }
}

function refusalOf({ refusal }: Answer): string {
  return refusal === undefined ? "" : `${refusal.code}: ${refusal.message}`;
}

/** As services on NATS say that a request was refused: on one line, with a code of HTTP. */
function errorHeaders({ refusal }: Answer): Record<string, string> {
  if (refusal === undefined) return {};
  const isWrong = refusal.code === "INVALID_OPTION" || refusal.code === "FRAME_CORRUPT";
  return {
    "Nats-Service-Error": refusal.message.replace(/[^\x20-\x7e]+/g, " ").slice(0, 512),
    "Nats-Service-Error-Code": isWrong ? "400" : "500",
  };
}

function serve(
  { network, registry, membership }: JobServiceInput,
  verb: JobVerb,
  body: unknown,
  tenant: string | undefined,
) {
  const recordOf = (id: string) => ownRecord(registry, id, tenant);
  switch (verb) {
    case "submit": {
      const request = checkOptions(requests.submit, body);
      const job = resolveJob(request.job);
      const devices = devicesThere(membership, job.devices);
      const used = job.devices === 0 ? devices : job.devices;
      if (used > job.slices) {
        throw expected("slices", `at least the number of devices, ${used}`, job.slices);
      }
      const record = registry.add(job, { key: request.key, tenant });
      if (record.since(0, 1).length === 0) {
        record.append(0, { type: "run.queued", name: job.name });
        registry.changed();
      }
      const { run: id, status } = record;
      return { run: id, status, events: eventsSubject(network.cluster, id, tenant) };
    }
    case "status":
      return statusOf(recordOf(checkOptions(requests.status, body).run));
    case "list":
      checkOptions(requests.list, body);
      return {
        runs: registry
          .all()
          .filter((record) => isSeenBy(record, tenant))
          .map(({ run: id, job, tenant: of, status }) => {
            return { run: id, name: job.name, tenant: of, status };
          }),
      };
    case "events": {
      const request = checkOptions(requests.events, body);
      return { events: recordOf(request.run).since(request.since, request.most) };
    }
    case "cancel": {
      const record = recordOf(checkOptions(requests.cancel, body).run);
      record.cancel();
      registry.changed();
      return { run: record.run, status: record.status };
    }
    case "scale": {
      const request = checkOptions(requests.scale, body);
      const record = recordOf(request.run);
      const { run: id, status, job } = record;
      const { devices } = request;
      if (record.isOver) throw expected("run", "one that is not over", `${id}, ${status}`);
      devicesThere(membership, devices);
      if (devices > job.slices) {
        throw expected("devices", `at most the job's \`slices\`, ${job.slices}`, devices);
      }
      record.scale(devices);
      return { run: id, status, devices };
    }
    case "schema":
      checkOptions(requests.schema, body);
      return schemas();
    default:
      return verb satisfies never;
  }
}

/** Devices that the cluster has or waits for. @throws InvalidOptionError: `devices` are more */
function devicesThere(membership: Membership, devices: number): number {
  const there = Math.max(membership.devices, membership.minDevices);
  if (devices > there) throw expected("devices", `at most the cluster's, ${there}`, devices);
  return there;
}

/** JSON Schema of a job and of the requests, as those who send them write them, and of events. */
function schemas() {
  const schemaOf = (schema: z.ZodType) =>
    z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
  const forRequests = Object.entries(requests).map(([verb, schema]) => [verb, schemaOf(schema)]);
  return {
    version: schemaVersion,
    job: jobJsonSchema(),
    requests: Object.fromEntries(forRequests),
    event: schemaOf(runEventSchema),
  };
}

/** What is another's is answered as what is not there. @throws InvalidOptionError */
function ownRecord(registry: Registry, id: string, tenant: string | undefined): RunRecord {
  const record = registry.get(id);
  if (record === undefined || !isSeenBy(record, tenant))
    throw expected("run", "the name of a run of this cluster", id);
  return record;
}

/** Whoever runs the cluster sees all runs, a tenant its own. */
function isSeenBy(record: RunRecord, tenant: string | undefined): boolean {
  return tenant === undefined || record.tenant === tenant;
}

function statusOf(record: RunRecord) {
  const { run: id, job, tenant, status, result, error } = record;
  return { run: id, name: job.name, tenant, status, result, error };
}
