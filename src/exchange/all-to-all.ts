// The all-to-all of one device. It writes directly into the receivers' inboxes in its host's
// memory. Two kinds of cells synchronise sender and receiver. If the receiver is on another host,
// this host's bridge (bridge.ts) sees the cell change, and sends cell and bytes to the same
// addresses there.
//
//   published[from][to]   last round that `from` has written for `to`
//   closed[to]            last round for which `to` has released its inbox
//
// Invariants
//   E1. An inbox is written only after its owner has closed the round before.
//   E2. A part is read only after it was published.

import { waitForEach } from "./cells.ts";
import {
  type AllToAll,
  type AllToAllName,
  channels,
  insideHost,
  type PartBytes,
} from "./exchange.ts";
import { inboxBytes, partFirst } from "./layout.ts";
import type { ChannelPlace } from "./surroundings.ts";

export function createAllToAll(options: ChannelPlace<AllToAllName>): AllToAll {
  const { name, rank, memory, cells, layout, around, sent } = options;
  const { inboxes, published, closed, span } = layout.channels[name];
  const peers = insideHost.has(name) ? around.neighbours : around.peers;
  const what = channels[name];
  const inbox = (to: number) => inboxes[to]?.first ?? 0;
  let round = 0;
  let bytes: PartBytes = () => 0;

  return {
    async open(partBytes) {
      const wait = (peer: number) => `device ${peer} to release its inbox of ${what}`;
      await waitForEach(cells, peers, closed, round, wait); // E1
      round++;
      bytes = partBytes;
    },

    isFree: () => peers.every((peer) => cells.load(closed(peer)) >= round), // E1

    outbox(to) {
      const byteOffset = inbox(to) + partFirst(bytes, rank, to);
      return { buffer: memory, byteOffset, byteLength: bytes(rank, to) };
    },

    start(used = (to) => bytes(rank, to)) {
      for (const peer of peers) {
        const part = used(peer);
        if (around.isLocal(peer)) {
          sent.shared += part;
        } else {
          sent.wire += part;
          cells.store(span(rank, peer), partFirst(bytes, rank, peer), []);
          cells.store(span(rank, peer) + 1, part, []);
        }
        cells.store(published(rank, peer), round, around.towards(peer));
      }
    },

    async finish() {
      const wait = (peer: number) => `${what} of device ${peer}`;
      await waitForEach(cells, peers, (peer) => published(peer, rank), round, wait); // E2
      const byteLength = inboxBytes(bytes, inboxes.length, rank);
      return { buffer: memory, byteOffset: inbox(rank), byteLength };
    },

    isThere: () => peers.every((peer) => cells.load(published(peer, rank)) >= round), // E2

    close() {
      cells.store(closed(rank), round, around.everybody);
    },
  };
}
