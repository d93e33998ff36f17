// Cuts the direct links of a host: every connection to another host, and from it, ends at once, and
// the bridge learns of it as of a failure of the network.

import type { DirectWay } from "../../src/exchange/links/negotiation.ts";

/** A way to direct links, and what cuts those that it has opened. */
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
        // Its methods are of a class: they are called on `links` itself.
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
    // The fault is injected within a call of the bridge.
    cut: () => setImmediate(() => cut()),
  };
}
