// The fenced transport of a leader: while the leader does not hold its lease, it sends and receives
// nothing as the leader of the cluster.

import type { Frame, Transport } from "../../src/wire/messages/transport.ts";

/**
 * Wraps a connection so that it passes frames only while `isOpen`. Calls `onWithheld` for each
 * frame that is not sent.
 */
export function fencedTransport(
  transport: Transport,
  isOpen: () => boolean,
  onWithheld: () => void,
): Transport {
  return {
    address: transport.address,
    frameBytesMax: transport.frameBytesMax,
    pending: () => transport.pending(),
    publish(subject, payload, options) {
      if (isOpen()) transport.publish(subject, payload, options);
      else onWithheld();
    },
    subscribe: (subject, receive, options) =>
      transport.subscribe(
        subject,
        (frame: Frame) => {
          if (isOpen()) receive(frame);
        },
        options,
      ),
    request: (subject, payload, options) => transport.request(subject, payload, options),
    flush: () => transport.flush(),
    onStatus: (receive) => transport.onStatus(receive),
    close: () => transport.close(),
  };
}
