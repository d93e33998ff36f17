// Cuts the direct links of a host: every incoming and outgoing connection ends at once, and the
// bridge gets the same events as after a network failure.

import type { DirectWay } from "../../src/exchange/links/negotiation.ts";

/** Wraps a factory of direct links, to cut the links that it has opened. */
export interface CuttableLinks {
  over(way: Omit<DirectWay, "tell">): Omit<DirectWay, "tell">;
  cut(): void;
}

export function cuttableLinks(): CuttableLinks {
  let cut = () => {};
  return {
    over: (way) => ({
      ...way,
      open(options) {
        const links = way.open(options);
        const dialled = new Set<number>();
        const admitted = new Set<number>();
        const reason = "the link was cut by a fault";
        cut = () => {
          for (const host of dialled) {
            if (!links.isOpen(host)) continue;
            links.hangUp(host);
            options.lost(host, "outgoing", reason);
          }
          for (const host of admitted) {
            links.fence(host);
            options.lost(host, "incoming", reason);
          }
        };
        // `links` is an object of a class, so that its methods cannot be copied by a spread.
        return {
          frameBytesMax: links.frameBytesMax,
          listen: () => links.listen(),
          admit(host, token) {
            admitted.add(host);
            links.admit(host, token);
          },
          dial(host, address, token) {
            dialled.add(host);
            return links.dial(host, address, token);
          },
          isOpen: (host) => links.isOpen(host),
          send: (host, frame) => links.send(host, frame),
          hangUp: (host) => links.hangUp(host),
          fence: (host) => links.fence(host),
          close: () => links.close(),
        };
      },
    }),
    // Deferred, because the fault is injected within a call of the bridge.
    cut: () => setImmediate(() => cut()),
  };
}
