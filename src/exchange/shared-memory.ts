// The exchange of one device: it writes straight into the receiver's inbox in its host's memory,
// and two kinds of cells keep sender and receiver apart. Where the receiver is on another host, the
// bridge of this one (bridge.ts) sees the cell and carries both to the same place there.
//
//   published[from][to]   round that `from` has written for `to`
//   closed[to]            round whose inbox `to` has given back
//
// Invariants
//   E1. Nobody writes into an inbox that its owner has not closed.
//   E2. Nobody reads a part before it was published.

import { createAllReduce } from "./all-reduce.ts";
import type { Cells } from "./cells.ts";
import {
  type AllToAll,
  type ChannelName,
  channelNames,
  channels,
  type Exchange,
  type ExchangeKernels,
  type ExchangeShape,
  insideHost,
  type PartBytes,
  type Region,
  type SentBytes,
} from "./exchange.ts";
import { inboxBytes, layoutOf, type SharedMemoryLayout } from "./layout.ts";

/**
 * The exchange of device `rank` over `memory` (of at least `layoutOf(shape).bytes`) and the cells
 * of its host. `bridge` is the participant that carries what goes to other hosts, if there are any.
 */
export function createSharedMemoryExchange(options: {
  readonly shape: ExchangeShape;
  readonly rank: number;
  readonly memory: ArrayBufferLike;
  readonly cells: Cells;
  /** The cells by channel, where waits are told apart; left out, `cells` for all. */
  readonly cellsFor?: (channel: ChannelName | "gradients") => Cells;
  readonly kernels: ExchangeKernels;
  readonly bridge?: number;
}): Exchange {
  const { shape, rank, bridge, cellsFor = () => options.cells } = options;
  const { devices } = shape;
  const layout = layoutOf(shape);
  const place = { ...options, layout, around: surroundingsOf(layout, rank, bridge) };
  const sent = Object.fromEntries(
    [...channelNames, "gradients"].map((name) => [name, { shared: 0, wire: 0 }]),
  ) as Record<ChannelName | "gradients", SentBytes>;
  const allToAlls = Object.fromEntries(
    channelNames.map((name) => [
      name,
      createAllToAll({ ...place, cells: cellsFor(name), name, sent: sent[name] }),
    ]),
  ) as Record<ChannelName, AllToAll>;
  const gradients = createAllReduce({
    ...place,
    cells: cellsFor("gradients"),
    sent: sent.gradients,
  });
  return { rank, devices, ...allToAlls, gradients, sent };
}

/** Who is where, seen from one device. */
export interface Surroundings {
  readonly host: number;
  /** All other devices. */
  readonly peers: readonly number[];
  /** The other devices of this host. */
  readonly neighbours: readonly number[];
  /** Whom to wake for something that all devices wait for: neighbours, and the bridge. */
  readonly everybody: readonly number[];
  isLocal(rank: number): boolean;
  /** Whom to wake for something that one device waits for: itself, or the bridge. */
  towards(rank: number): readonly number[];
}

function surroundingsOf(
  { hostOf, hosts }: SharedMemoryLayout,
  rank: number,
  bridge: number | undefined,
): Surroundings {
  const host = hostOf[rank] ?? 0;
  const others = (ranks: readonly number[]) => ranks.filter((other) => other !== rank);
  const neighbours = others(hosts[host] ?? []);
  if (hosts.length > 1 && bridge === undefined) {
    throw new RangeError(`Device ${rank} of ${hosts.length} hosts needs a bridge`);
  }
  const bridges = hosts.length > 1 && bridge !== undefined ? [bridge] : [];
  const targets = hostOf.map((of, other) => (of === host ? [other] : bridges));
  return {
    host,
    peers: others(hostOf.map((_, other) => other)),
    neighbours,
    everybody: [...neighbours, ...bridges],
    isLocal: (other) => hostOf[other] === host,
    towards: (other) => targets[other] ?? [],
  };
}

function createAllToAll(options: {
  readonly name: ChannelName;
  readonly rank: number;
  readonly memory: ArrayBufferLike;
  readonly cells: Cells;
  readonly layout: SharedMemoryLayout;
  readonly around: Surroundings;
  readonly sent: SentBytes;
}): AllToAll {
  const { name, rank, memory, cells, layout, around, sent } = options;
  const { inboxes, published, closed, span } = layout.channels[name];
  const peers = insideHost.has(name) ? around.neighbours : around.peers;
  const what = channels[name];
  const devices = inboxes.length;
  const inbox = (to: number) => inboxes[to]?.first ?? 0;
  let round = 0;
  let bytes: PartBytes = () => 0;

  const partFirst = (to: number): number => {
    let first = 0;
    for (let from = 0; from < rank; from++) first += bytes(from, to);
    return first;
  };

  return {
    async open(partBytes) {
      const before = round;
      round++;
      bytes = partBytes;
      for (const peer of peers) {
        await cells.waitUntil(
          () => `device ${peer} to give back its inbox of ${what} (round ${before})`,
          () => cells.load(closed(peer)) >= before, // E1
        );
      }
    },

    isFree: () => peers.every((peer) => cells.load(closed(peer)) >= round), // E1

    outbox(to) {
      const byteOffset = inbox(to) + partFirst(to);
      return { buffer: memory, byteOffset, byteLength: bytes(rank, to) };
    },

    start(used = (to) => bytes(rank, to)) {
      for (const peer of peers) {
        const part = used(peer);
        if (around.isLocal(peer)) {
          sent.shared += part;
        } else {
          sent.wire += part;
          cells.store(span(rank, peer), partFirst(peer), []);
          cells.store(span(rank, peer) + 1, part, []);
        }
        cells.store(published(rank, peer), round, around.towards(peer));
      }
    },

    async finish(): Promise<Region> {
      for (const peer of peers) {
        await cells.waitUntil(
          () => `${what} of device ${peer} (round ${round})`,
          () => cells.load(published(peer, rank)) >= round, // E2
        );
      }
      const byteLength = inboxBytes(bytes, devices, rank);
      return { buffer: memory, byteOffset: inbox(rank), byteLength };
    },

    isThere: () => peers.every((peer) => cells.load(published(peer, rank)) >= round), // E2

    close() {
      cells.store(closed(rank), round, around.everybody);
    },
  };
}
