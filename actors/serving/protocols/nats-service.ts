// Served models over NATS: request and reply, in JSON or msgpack, whichever the request is in.
//
//   osiris.serve.<model>.predict   { instances: [record, …] }                → { predictions, … }
//   osiris.serve.<model>.rank      { user, candidates, top, by }             → { ranked, … }
//
// Bodies are those of plain JSON over HTTP (plain-json.ts). A refusal is an object `error` of code
// and message, with the headers that services on NATS have for it. Clients that look for services
// find `osiris-serve` (actors/jobs/service-discovery.ts). Of several servers one gets a request.
//
// Invariants
//   N1. Every request with a subject to answer on is answered.
//   N2. A broker that is gone stops nothing else: the client dials it again for ever.

import { hostname } from "node:os";
import {
  FrameCorruptError,
  RequestUnusableError,
  recordError,
} from "../../../src/errors/errors.ts";
import type { Clock } from "../../../src/ports/clock.ts";
import type { Log } from "../../../src/ports/log.ts";
import { decodeBody } from "../../../src/wire/messages/body.ts";
import { isInbox, servingSubject } from "../../../src/wire/messages/subjects.ts";
import type { Frame, Transport } from "../../../src/wire/messages/transport.ts";
import { connectNats } from "../../../src/wire/transports/nats-transport.ts";
import { type Answer, publishAnswer, refusalAnswer } from "../../jobs/service-answers.ts";
import { openDiscovery, type ServiceEndpoint } from "../../jobs/service-discovery.ts";
import { packageVersion } from "../../runtime/version.ts";
import type { Front } from "../models/front.ts";
import type { ServerSpec } from "../models/server-options.ts";
import type { ServingFigures } from "../models/serving-figures.ts";
import { type Method, methods, plainAnswer, readPlain } from "./plain-json.ts";

export interface NatsServiceInput {
  readonly spec: ServerSpec;
  readonly front: Front;
  readonly figures: ServingFigures;
  readonly log: Log;
  readonly clock: Clock;
}

/** A service that listens. */
export interface NatsService {
  /** Takes no more requests. */
  stop(): void;
  /** And ends the connection, once what was answered has left. */
  close(): Promise<void>;
}

const queue = "osiris-serve";
/** Longest wait for the broker to be there at the start. */
const connectMs = 5000;

/** Listens, where the options name a broker. @throws TransportLostError */
export async function listenNats(input: NatsServiceInput): Promise<NatsService | undefined> {
  const { spec, front, figures, log, clock } = input;
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
  figures.broker(true);
  transport.onStatus((status) => {
    figures.broker(status === "connected");
    log.write("warn", `The broker is ${status}`);
  });
  const endpoints = front.names.flatMap((model) =>
    methods.map((method) => ({ model, method, ...endpointOf(model, method) })),
  );
  const discovery = openDiscovery({ transport, clock }, identity(front.names), endpoints);
  const subscriptions = endpoints.map(({ model, method, name, subject }) =>
    transport.subscribe(
      subject,
      (frame) => {
        const answer = () => answerOf(front, model, method, frame);
        void discovery
          .count(name, answer, ({ refusal }) => refusal?.message ?? "")
          .then((answered) => reply(transport, frame, answered))
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

/** N1 */
async function answerOf(
  front: Front,
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
    return { body: plainAnswer(await front.answer({ model, ...read, bytes, protocol: "nats" })) };
  } catch (error) {
    return refusalAnswer(error);
  }
}

/** @throws FrameCorruptError where there is nobody to answer */
function reply(transport: Transport, frame: Frame, answer: Answer): void {
  const { reply: subject } = frame;
  if (subject === undefined || !isInbox(subject)) {
    throw new FrameCorruptError(frame.subject, "there is no subject to answer on");
  }
  publishAnswer(transport, { ...frame, reply: subject }, answer);
}
