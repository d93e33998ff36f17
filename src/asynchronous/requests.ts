// Requests of trainers to parameter servers. A request is repeated until a response arrives or its
// deadline has passed. Servers must therefore respond to a repeated request as to the first.

import { FrameCorruptError, PeerLostError, RequestFailedError } from "../errors/errors.ts";
import type { Clock } from "../ports/clock.ts";
import { type ActorSubject, subjectOf } from "../wire/messages/subjects.ts";
import type { Frame, Subscription, Transport } from "../wire/messages/transport.ts";
import { decodeFrame, encodeFrame, frameOf, type ParameterFrame } from "./frames.ts";

/** The generation of a run, as parts of the subjects of its parameter servers. */
export type ServersPlace = Pick<ActorSubject, "cluster" | "run" | "generation">;

/** A parameter server. */
export interface ServerName {
  readonly role: "sparse" | "dense";
  readonly index: number;
}

/** A trainer's connection to the servers. */
export interface ServerLink {
  readonly transport: Transport;
  readonly place: ServersPlace;
  readonly clock: Clock;
  /** Time after which a silent server counts as lost; interval of repeated requests. */
  readonly deadlineMs: number;
  readonly againMs: number;
  /** Bytes of requests and responses so far, and number of repeated requests. */
  readonly traffic: { sent: number; received: number; repeated: number };
}

function subjectIn(place: ServersPlace, server: ServerName): string {
  return subjectOf({ ...place, ...server, action: "parameters" });
}

/**
 * Sends a request to a server; resolves to the response.
 * @throws PeerLostError naming the server, after the deadline
 */
export async function askServer(
  { transport, place, clock, deadlineMs, againMs, traffic }: ServerLink,
  server: ServerName,
  request: ParameterFrame,
): Promise<ParameterFrame> {
  const subject = subjectIn(place, server);
  const payload = encodeFrame(request);
  const fromMs = clock.now();
  for (;;) {
    const askedMs = clock.now();
    try {
      traffic.sent += payload.length;
      const answer = await transport.request(subject, payload, { deadlineMs: againMs });
      traffic.received += answer.payload.length;
      return decodeFrame(subject, answer.payload);
    } catch (cause) {
      if (!(cause instanceof RequestFailedError || cause instanceof FrameCorruptError)) throw cause;
      if (clock.now() - fromMs >= deadlineMs) {
        const reason = `no answer within ${deadlineMs} ms`;
        throw new PeerLostError(`${server.role}:${server.index}`, reason, { cause });
      }
      traffic.repeated++;
      // While a server restarts, requests fail at once, as nobody subscribes: wait before the next.
      const waitMs = againMs - (clock.now() - askedMs);
      if (waitMs > 0) await new Promise<void>((resume) => clock.after(waitMs, resume));
    }
  }
}

/**
 * Serves the requests to a server, one at a time, until it is unsubscribed. `onError` receives the
 * error of a request; the sender then gets no response.
 */
export function serveParameters(
  options: {
    readonly transport: Transport;
    readonly place: ServersPlace;
    readonly server: ServerName;
    readonly onError: (error: unknown) => void;
  },
  answer: (request: ParameterFrame) => ParameterFrame["parts"],
): Subscription {
  const { transport, place, server, onError } = options;
  return transport.subscribe(subjectIn(place, server), ({ subject, payload, reply }: Frame) => {
    try {
      if (reply === undefined) throw new FrameCorruptError(subject, "it is no request");
      const parts = answer(decodeFrame(subject, payload));
      transport.publish(reply, encodeFrame(frameOf("answer", { parts })));
    } catch (error) {
      onError(error);
    }
  });
}
