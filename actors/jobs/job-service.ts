// Job service: the API of a cluster over NATS, in JSON or msgpack; a reply has the encoding of its
// request.
//
//   osiris.<cluster>.jobs.<method>      requests and replies are in job-api.ts
//
// A refusal is { error: { code, message } }; for wrong options it also has `problems`: { option,
// message } of each. Events of a run are published on osiris.<cluster>.runs.<run>.events, as JSON,
// numbered by `seq` without gaps.
//
// A tenant sends requests on osiris.<cluster>.jobs.<tenant>.<method>: it sees only its own runs,
// and their events are published on osiris.<cluster>.runs.<tenant>.<run>.events. The broker
// enforces who may use which subject.
//
// Service discovery finds it as `osiris-<cluster>` (service-discovery.ts).
//
// Invariants
//   S1. Every request is answered, also a malformed one. For a tenant that floods, the broker
//       answers "no responders" (flood-guard.ts).
//   S2. The service holds no state: runs are in the registry. It may die at any time.
//   S3. A change is persisted (registry.kept) before it is answered.

import { hostname } from "node:os";
import { fromCallback, setup } from "xstate";
import { FrameCorruptError } from "../../src/errors/errors.ts";
import { packageVersion } from "../../src/ports/entry-file.ts";
import { decodeBody } from "../../src/wire/messages/body.ts";
import { isInbox, jobsSubject, tenantsPattern } from "../../src/wire/messages/subjects.ts";
import type { Frame } from "../../src/wire/messages/transport.ts";
import { defineActor } from "../runtime/define-actor.ts";
import { clusterScope, type Mailbox, openMailbox } from "../runtime/mailbox.ts";
import { type Admission, openAdmission, requestingTenant } from "./admission.ts";
import { openFloodGuard } from "./flood-guard.ts";
import { type JobMethod, jobMethods, schemaVersion } from "./job-api.ts";
import { handle, type JobServiceInput } from "./job-handlers.ts";
import { type Answer, publishAnswer, refusalAnswer } from "./service-answers.ts";
import { openDiscovery, type ServiceIdentity } from "./service-discovery.ts";

const queue = "jobs";

/** Answers requests for as long as it is invoked. */
const serving = fromCallback<{ type: string }, JobServiceInput>(({ input }) => {
  const { transport, cluster } = input.network;
  const endpoints = jobMethods.map((method) => {
    return { name: method, subject: jobsSubject(cluster, method), queue };
  });
  const admission = openAdmission(input.network.clock, input.access.tenants);
  const discovery = openDiscovery(input.network, identityOf(cluster), endpoints);
  const answer = (method: JobMethod) => async (frame: Frame) => {
    const { reply } = frame;
    if (reply === undefined || !isInbox(reply)) {
      const error = new FrameCorruptError(frame.subject, "there is no subject to answer on");
      return input.network.onCorrupt(error);
    }
    const given = await discovery.count(
      method,
      () => answerOf(input, admission, method, frame),
      refusalOf,
    );
    publishAnswer(transport, { ...frame, reply }, given);
  };
  const { tenants } = input.access;
  const isListed = Object.keys(tenants).length > 0;
  const operator = endpoints.flatMap(({ name: method, subject }) => {
    const ofTenants = isListed ? [] : [tenantsPattern(cluster, method)];
    return [subject, ...ofTenants].map((pattern) =>
      transport.subscribe(pattern, answer(method), { queue }),
    );
  });
  const floodGuard = openFloodGuard(input.network, tenants, (tenant, arrived) =>
    jobMethods.map((method) => {
      const handleOne = answer(method);
      const receive = (frame: Frame) => {
        arrived();
        void handleOne(frame);
      };
      const options = { queue, onCorrupt: arrived, onChunk: arrived };
      return transport.subscribe(jobsSubject(cluster, method, tenant), receive, options);
    }),
  );
  return () => {
    discovery.close();
    floodGuard.close();
    for (const subscription of operator) subscription.unsubscribe();
  };
});

function identityOf(cluster: string): ServiceIdentity {
  return {
    name: `osiris-${cluster}`,
    id: `${hostname()}-${process.pid}`.replace(/[^A-Za-z0-9_-]/g, "-"),
    version: packageVersion(),
    description: "Accepts jobs that train recommendation models, and reports their state",
    metadata: { cluster, schemaVersion: String(schemaVersion) },
  };
}

const machine = setup({
  types: {} as {
    context: JobServiceInput & { readonly mailbox: Mailbox };
    input: JobServiceInput;
  },
  actors: { serving },
}).createMachine({
  id: "jobService",
  context: ({ input }) => ({
    ...input,
    mailbox: openMailbox(input.network, clusterScope, { role: "jobs", index: 0 }),
  }),
  invoke: { src: "serving", input: ({ context }) => context },
  initial: "serving",
  states: { serving: {} },
});

/** The actor of the job service. */
export const jobServiceMachine = defineActor(machine);

/** Answers a request, or refuses it. S1 */
async function answerOf(
  input: JobServiceInput,
  admission: Admission,
  method: JobMethod,
  frame: Frame,
): Promise<Answer> {
  try {
    const tenant = requestingTenant(frame, input.access.tenants);
    admission.admit(tenant, frame.payload.length);
    const body = frame.payload.length === 0 ? {} : (decodeBody(frame) ?? {});
    return { body: await handle(input, method, body, tenant) };
  } catch (error) {
    return refusalAnswer(error);
  }
}

function refusalOf({ refusal }: Answer): string {
  return refusal === undefined ? "" : `${refusal.code}: ${refusal.message}`;
}
