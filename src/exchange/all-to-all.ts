// The all-to-all of one device. It writes directly into the inboxes of its host's devices, and into
// outboxes for other hosts, whose parts this host's bridge (bridge.ts) sends to the inboxes there.
//
//   published[from][to]   last round that `from` has written for `to`, or that has arrived here
//   sent[from]            last round that `from` has written for other hosts
//   ahead[from][to]       bytes of the round that `from` has written, before it has written all
//   closed[to]            last round for which `to` has released its inbox
//
// Invariants
//   E1. An inbox is written only after its owner has closed the round before.
//   E2. A part is read only after it was published.
//   E3. The last bytes of a part are sent only with its round, never ahead. So the bridge has read
//       all cells of a round before the next round changes them.

import { storeSpan, waitForEach, wordsOf } from "./cells.ts";
import {
  type AllToAll,
  type AllToAllName,
  channels,
  insideHost,
  type PartBytes,
} from "./exchange.ts";
import { aheadBytesMin, tailBytes } from "./frame.ts";
import { inboxBytes, partFirst } from "./layout.ts";
import type { ChannelPlace } from "./surroundings.ts";

export function createAllToAll(options: ChannelPlace<AllToAllName>): AllToAll {
  const { name, rank, memory, cells, layout, around } = options;
  const { hostOf } = layout;
  const { inbox, outbox, published, closed, span, sent, sentWords, ahead } = layout.channels[name];
  const peers = insideHost.has(name) ? around.neighbours : around.peers;
  const isAcross = peers.some((peer) => !around.isLocal(peer));
  const what = channels[name];
  const placesOf = partPlaces(rank, hostOf.length, peers);
  let round = 0;
  let bytes: PartBytes = () => 0;
  /** Bytes of each part of round `leftIn` that were sent ahead; `leaves` counts such sends. */
  const left = new Float64Array(ahead === undefined ? 0 : hostOf.length);
  let [leftIn, leaves] = [0, 0];

  return {
    async open(partBytes) {
      const wait = (peer: number) => `device ${peer} to release its inbox of ${what}`;
      await waitForEach(cells, peers, closed, round, wait); // E1
      round++;
      bytes = partBytes;
    },

    isFree: () => peers.every((peer) => cells.load(closed(peer)) >= round), // E1

    outbox(to) {
      const byteOffset = around.isLocal(to)
        ? inbox(to).first + placesOf(bytes).firstOf(to)
        : outbox(rank, to).first;
      return { buffer: memory, byteOffset, byteLength: bytes(rank, to) };
    },

    sendAhead(to, written, total) {
      if (ahead === undefined || around.isLocal(to)) return;
      const ready = Math.min(written, total - tailBytes);
      const before = leftIn === round ? (left[to] ?? 0) : 0;
      if (ready - before < aheadBytesMin) return;
      if (leftIn !== round) {
        left.fill(0);
        for (const peer of peers) cells.store(ahead.words(rank, peer), 0, []);
        cells.store(ahead.round(rank), round, []);
        leftIn = round;
      }
      if (before === 0) {
        storeSpan(cells, span(rank, to), { first: placesOf(bytes).firstOf(to), bytes: total });
      }
      left[to] = ready;
      cells.store(ahead.words(rank, to), wordsOf(ready), []);
      leaves = (leaves + 1) | 0;
      cells.store(ahead.count(rank), leaves, around.bridges);
    },

    start(used = (to) => bytes(rank, to)) {
      const { firstOf } = placesOf(bytes);
      let across = 0;
      for (const peer of peers) {
        const part = used(peer);
        if (around.isLocal(peer)) {
          options.sent.shared += part;
          cells.store(published(rank, peer), round, [peer]);
        } else {
          across += part;
          storeSpan(cells, span(rank, peer), { first: firstOf(peer), bytes: part });
        }
      }
      if (!isAcross) return;
      options.sent.wire += across;
      cells.store(sentWords(rank), wordsOf(across), []);
      cells.store(sent(rank), round, around.bridges);
    },

    async finish() {
      const wait = (peer: number) => `${what} of device ${peer}`;
      await waitForEach(cells, peers, (peer) => published(peer, rank), round, wait); // E2
      return {
        buffer: memory,
        byteOffset: inbox(rank).first,
        byteLength: placesOf(bytes).received,
      };
    },

    isThere: () => peers.every((peer) => cells.load(published(peer, rank)) >= round), // E2

    close(isUrgent = false) {
      cells.store(closed(rank), round, isUrgent ? around.everybody : around.neighbours);
    },
  };
}

/** The places of a device's parts in the inboxes of a round. */
interface PartPlaces {
  /** First byte of the device's own part in the inbox of `to`. */
  firstOf(to: number): number;
  /** Bytes that the device receives. */
  readonly received: number;
}

/**
 * The places of the parts of device `rank`, computed once for each function of bytes: each place is
 * a sum over the devices before it.
 */
function partPlaces(rank: number, devices: number, peers: readonly number[]) {
  const known = new WeakMap<PartBytes, PartPlaces>();
  return (bytes: PartBytes): PartPlaces => {
    const found = known.get(bytes);
    if (found !== undefined) return found;
    const firsts = new Float64Array(devices);
    for (const to of [rank, ...peers]) firsts[to] = partFirst(bytes, rank, to);
    const received = inboxBytes(bytes, devices, rank);
    const places = { firstOf: (to: number) => firsts[to] ?? 0, received };
    known.set(bytes, places);
    return places;
  };
}
