// The gate of a leader: while it does not hold its lease, it says nothing as the leader of the
// cluster, and hears nothing.

import type { Frame, Transport } from "../../src/wire/messages/transport.ts";

/** The same connection, open as long as `isOpen`. What is not sent is told to `onWithheld`. */
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
    onStatus: (tell) => transport.onStatus(tell),
    close: () => transport.close(),
  };
}
