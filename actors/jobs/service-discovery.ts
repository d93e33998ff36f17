// Service discovery of NATS services (ADR-32 of NATS: `nats micro ls`, `info`, `stats`, and the
// clients of every language).
//
//   $SRV.PING | INFO | STATS [ .<name> [ .<id> ] ]   → a JSON answer of each instance
//
// Every instance must answer, so the subjects have no queue group.

import { FrameCorruptError } from "../../src/errors/errors.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { encodeBody } from "../../src/wire/messages/body.ts";
import { isInbox } from "../../src/wire/messages/subjects.ts";
import type { Frame, Subscription, Transport } from "../../src/wire/messages/transport.ts";

/** The identity of a service instance. */
export interface ServiceIdentity {
  /** Letters, digits, `-` and `_`. */
  readonly name: string;
  /** Unique id of this instance. */
  readonly id: string;
  /** Semantic version. */
  readonly version: string;
  readonly description: string;
  /** Additional properties, as text. */
  readonly metadata: Readonly<Record<string, string>>;
}

export interface ServiceEndpoint {
  readonly name: string;
  readonly subject: string;
  /** Queue group: one of its instances gets a request. */
  readonly queue: string;
}

/** A discoverable service with counters of its requests. */
export interface DiscoverableService {
  /**
   * Runs `body` as a request to the endpoint, and counts it; `errorOf` says whether the answer is a
   * refusal.
   */
  count<Answer>(
    endpoint: string,
    body: () => Promise<Answer>,
    errorOf: (answer: Answer) => string,
  ): Promise<Answer>;
  close(): void;
}

interface Counts {
  requests: number;
  errors: number;
  lastError: string;
  ms: number;
}

const verbs = ["PING", "INFO", "STATS"] as const;
type Verb = (typeof verbs)[number];

/** Answers discovery requests for a service until it is closed. */
export function openDiscovery(
  { transport, clock }: { readonly transport: Transport; readonly clock: Clock },
  identity: ServiceIdentity,
  endpoints: readonly ServiceEndpoint[],
): DiscoverableService {
  const started = clock.date().toISOString();
  const counts = new Map(
    endpoints.map(({ name }): [string, Counts] => [
      name,
      { requests: 0, errors: 0, lastError: "", ms: 0 },
    ]),
  );
  const bodyOf = (verb: Verb) => {
    const { name, id, version, metadata, description } = identity;
    const common = { type: `io.nats.micro.v1.${verb.toLowerCase()}_response`, name, id, version };
    const about = { ...common, metadata };
    switch (verb) {
      case "PING":
        return about;
      case "INFO":
        return { ...about, description, endpoints: endpoints.map(describe) };
      case "STATS": {
        const stats = endpoints.map((one) => ({ ...describe(one), ...statsOf(counts, one) }));
        return { ...about, started, endpoints: stats };
      }
      default:
        return verb satisfies never;
    }
  };
  const answer = (verb: Verb) => {
    return ({ subject, reply }: Frame) => {
      if (reply === undefined || !isInbox(reply)) {
        throw new FrameCorruptError(subject, "there is no subject to answer on");
      }
      const { payload, headers } = encodeBody(bodyOf(verb), "application/json");
      transport.publish(reply, payload, { headers });
    };
  };
  const subscriptions: Subscription[] = verbs.flatMap((verb) => {
    const { name, id } = identity;
    const subjects = [`$SRV.${verb}`, `$SRV.${verb}.${name}`, `$SRV.${verb}.${name}.${id}`];
    return subjects.map((subject) => transport.subscribe(subject, answer(verb)));
  });
  return {
    async count(endpoint, body, errorOf) {
      const own = counts.get(endpoint);
      if (own === undefined) throw new RangeError(`The service has no endpoint ${endpoint}`);
      const fromMs = clock.now();
      const result = await body();
      own.requests++;
      own.ms += clock.now() - fromMs;
      const error = errorOf(result);
      if (error === "") return result;
      own.errors++;
      own.lastError = error;
      return result;
    },
    close() {
      for (const subscription of subscriptions) subscription.unsubscribe();
    },
  };
}

function describe({ name, subject, queue }: ServiceEndpoint) {
  return { name, subject, queue_group: queue, metadata: {} };
}

/** Statistics of an endpoint, with times in nanoseconds. */
function statsOf(counts: ReadonlyMap<string, Counts>, { name }: ServiceEndpoint) {
  const { requests = 0, errors = 0, lastError = "", ms = 0 } = counts.get(name) ?? {};
  const whole = Math.round(1e6 * ms);
  return {
    num_requests: requests,
    num_errors: errors,
    last_error: lastError,
    processing_time: whole,
    average_processing_time: requests === 0 ? 0 : Math.round(whole / requests),
  };
}
