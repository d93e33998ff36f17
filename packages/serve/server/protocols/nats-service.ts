// Serves models over NATS request-reply, in JSON or msgpack; the answer has the encoding of the
// request.
//
//   osiris.serve.<model>.predict   { instances: [record, …] }                → { predictions, … }
//   osiris.serve.<model>.rank      { user, candidates, top, by }             → { ranked, … }
//
// Bodies are as in plain JSON over HTTP (plain-json.ts). A refusal is an object `error` with code
// and message, plus the error headers of NATS services. Service discovery finds `osiris-serve`
// (actors/jobs/service-discovery.ts). Several servers form a queue group: one of them gets a
// request.
//
// Invariants
//   N1. Every request with a reply subject is answered.
//   N2. A lost broker affects nothing else: the client reconnects for ever.

import { hostname } from "node:os";
import {
  type Answer,
  type Clock,
  connectNats,
  decodeBody,
  type Frame,
  FrameCorruptError,
  isInbox,
  type Log,
  openDiscovery,
  packageVersion,
  publishAnswer,
  RequestUnusableError,
  recordError,
  refusalAnswer,
  type ServiceEndpoint,
  servingSubject,
  type Transport,
} from "../../../../internal.ts";
import type { RequestRouter } from "../models/request-router.ts";
import type { ServerSpec } from "../models/server-options.ts";
import type { ServingMetrics } from "../models/serving-metrics.ts";
import { type Method, methods, plainAnswer, readPlain } from "./plain-json.ts";

export interface NatsServiceInput {
  readonly spec: ServerSpec;
  readonly router: RequestRouter;
  readonly metrics: ServingMetrics;
  readonly log: Log;
  readonly clock: Clock;
}

/** A listening service. */
export interface NatsService {
  /** Stops accepting requests. */
  stop(): void;
  /** Stops, and closes the connection once all answers are sent. */
  close(): Promise<void>;
}

const queue = "osiris-serve";
/** Longest wait for the connection to the broker at the start. */
const connectMs = 5000;

/** Starts to listen if the options name a broker. @throws TransportLostError */
export async function listenNats(input: NatsServiceInput): Promise<NatsService | undefined> {
  const { spec, router, metrics, log, clock } = input;
  if (spec.nats === undefined) return undefined;
  const { url, ...credentials } = spec.nats;
  const transport = await connectNats({
    ...credentials,
    servers: url,
    name: "osiris-serve",
    deadlineMs: connectMs,
    clock,
    onError: (error) => {
      log.write("warn", "A request over NATS was lost", { error: recordError(error).message });
    },
  });
  metrics.broker(true);
  transport.onStatus((status) => {
    metrics.broker(status === "connected");
    log.write("warn", `The broker is ${status}`);
  });
  const endpoints = router.names.flatMap((model) =>
    methods.map((method) => ({ model, method, ...endpointOf(model, method) })),
  );
  const discovery = openDiscovery({ transport, clock }, identity(router.names), endpoints);
  const subscriptions = endpoints.map(({ model, method, name, subject }) =>
    transport.subscribe(
      subject,
      (frame) => {
        const answer = () => answerOf(router, model, method, frame);
        void discovery
          .count(name, answer, ({ refusal }) => refusal?.message ?? "")
          .then((answer) => reply(transport, frame, answer))
          .catch((error: unknown) => {
            log.write("warn", "An answer over NATS was lost", {
              error: recordError(error).message,
            });
          });
      },
      { queue },
    ),
  );
  await transport.flush();
  return {
    stop() {
      discovery.close();
      for (const subscription of subscriptions) subscription.unsubscribe();
    },
    close: () => transport.close(),
  };
}

function endpointOf(model: string, method: Method): ServiceEndpoint {
  return { name: `${model}-${method}`, subject: servingSubject(model, method), queue };
}

function identity(models: readonly string[]) {
  return {
    name: "osiris-serve",
    id: `${hostname()}-${process.pid}`.replace(/[^A-Za-z0-9_-]/g, "-"),
    version: packageVersion(),
    description: "Predicts by trained recommendation models",
    metadata: { models: models.join(",") },
  };
}

/** Answers a request, or refuses it. N1 */
async function answerOf(
  router: RequestRouter,
  model: string,
  method: Method,
  frame: Frame,
): Promise<Answer> {
  try {
    const body = decodeBody(frame);
    if (typeof body !== "object" || body === null || Array.isArray(body)) {
      throw new RequestUnusableError("Expected the body to be an object");
    }
    const read = readPlain(method, body as Record<string, unknown>);
    const bytes = frame.payload.length;
    return { body: plainAnswer(await router.answer({ model, ...read, bytes, protocol: "nats" })) };
  } catch (error) {
    return refusalAnswer(error);
  }
}

/** Publishes an answer. @throws FrameCorruptError if the request has no usable reply subject */
function reply(transport: Transport, frame: Frame, answer: Answer): void {
  const { reply: subject } = frame;
  if (subject === undefined || !isInbox(subject)) {
    throw new FrameCorruptError(frame.subject, "there is no subject to answer on");
  }
  publishAnswer(transport, { ...frame, reply: subject }, answer);
}
