// Requests of trainers to parameter servers. A request is repeated until it is answered, or its
// deadline has passed; so a server must answer a repeated request as it answered the first.

import { FrameCorruptError, PeerLostError, RequestFailedError } from "../errors/errors.ts";
import type { Clock } from "../ports/clock.ts";
import { type ActorSubject, subjectOf } from "../wire/messages/subjects.ts";
import type { Frame, Subscription, Transport } from "../wire/messages/transport.ts";
import { decodeFrame, encodeFrame, frameOf, type ParameterFrame } from "./frames.ts";

/** The run whose parameter servers are meant. */
export type ServersPlace = Pick<ActorSubject, "cluster" | "run" | "generation">;

/** A parameter server. */
export interface ServerName {
  readonly role: "sparse" | "dense";
  readonly index: number;
}

/** A trainer's way to the servers. */
export interface ServerLink {
  readonly transport: Transport;
  readonly place: ServersPlace;
  readonly clock: Clock;
  /** After which a silent server counts as lost, and after which a request is repeated. */
  readonly deadlineMs: number;
  readonly againMs: number;
  /** Bytes of requests and answers so far, and repeated requests. */
  readonly traffic: { sent: number; received: number; repeated: number };
}

function subjectIn(place: ServersPlace, server: ServerName): string {
  return subjectOf({ ...place, ...server, action: "parameters" });
}

/**
 * Resolves to the answer of a server.
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
      // Without a subscriber a request fails at once: a server that restarts is waited for.
      const waitMs = againMs - (clock.now() - askedMs);
      if (waitMs > 0) await new Promise<void>((resume) => clock.after(waitMs, resume));
    }
  }
}

/**
 * Answers the requests to a server, one after the other, until it is unsubscribed. `onError` is
 * called with the error of a request, which gets no answer.
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
