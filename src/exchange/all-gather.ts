// The all-gather of one device: the parts of all devices are contiguous in one region of each
// host's memory, where all devices of the host read them. One cell publishes a part to the
// neighbours and to the bridge, which sends the part once to each other host.
//
//   published[from]   round of the part that `from` has written
//   closed[rank]      round that `rank` has read
//
// Invariants
//   G1. A part is written only when all devices have read the parts of the round before.
//   G2. A part is read only after it was published.

import { storeSpan, waitForEach } from "./cells.ts";
import { type AllGather, channels, type GatherName, type PartBytes } from "./exchange.ts";
import { inboxBytes, partFirst } from "./layout.ts";
import type { ChannelPlace } from "./surroundings.ts";

export function createAllGather(options: ChannelPlace<GatherName>): AllGather {
  const { name, rank, memory, cells, layout, around, sent } = options;
  const { inbox, published, closed, span } = layout.channels[name];
  const { peers, neighbours } = around;
  const what = channels[name];
  const { first } = inbox(rank);
  const devices = layout.hostOf.length;
  const otherHosts = layout.hosts.length - 1;
  const cellOf = (from: number) => published(from, rank);
  let round = 0;
  let bytes: PartBytes = () => 0;

  return {
    async open(partBytes) {
      const wait = (peer: number) => `device ${peer} to read ${what}`;
      await waitForEach(cells, peers, closed, round, wait); // G1
      round++;
      bytes = partBytes;
    },

    outbox() {
      const byteOffset = first + partFirst(bytes, rank, rank);
      return { buffer: memory, byteOffset, byteLength: bytes(rank, rank) };
    },

    start() {
      const part = bytes(rank, rank);
      if (part === 0) return;
      sent.shared += neighbours.length * part;
      sent.wire += otherHosts * part;
      storeSpan(cells, span(rank, rank), { first: partFirst(bytes, rank, rank), bytes: part });
      cells.store(cellOf(rank), round, around.everybody);
    },

    async finish() {
      const senders = peers.filter((peer) => bytes(peer, rank) > 0);
      await waitForEach(cells, senders, cellOf, round, (peer) => `${what} of device ${peer}`); // G2
      const byteLength = inboxBytes(bytes, devices, rank);
      return { buffer: memory, byteOffset: first, byteLength };
    },

    close(isUrgent = false) {
      cells.store(closed(rank), round, isUrgent ? around.everybody : around.neighbours);
    },
  };
}
