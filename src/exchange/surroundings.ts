// The topology of the exchange from one device's view: the devices that share its host's memory,
// the participants that it wakes, and its end of a channel.

import type { Cells } from "./cells.ts";
import type { ChannelName, SentBytes } from "./exchange.ts";
import type { SharedMemoryLayout } from "./layout.ts";

/** One device's end of a channel. */
export interface ChannelPlace<Name extends ChannelName> {
  readonly name: Name;
  readonly rank: number;
  readonly memory: ArrayBufferLike;
  readonly cells: Cells;
  readonly layout: SharedMemoryLayout;
  readonly around: Surroundings;
  readonly sent: SentBytes;
}

/** The other devices, relative to one device. */
export interface Surroundings {
  readonly host: number;
  /** All other devices. */
  readonly peers: readonly number[];
  /** The other devices of this host. */
  readonly neighbours: readonly number[];
  /** Participants to wake when all devices wait: the neighbours, and the bridge. */
  readonly everybody: readonly number[];
  /** The bridge, if there are other hosts. */
  readonly bridges: readonly number[];
  isLocal(rank: number): boolean;
  /** Participants to wake when one device waits: that device, or the bridge to its host. */
  towards(rank: number): readonly number[];
}

export function surroundingsOf(
  { hostOf, hosts }: SharedMemoryLayout,
  rank: number,
  bridge: number | undefined,
): Surroundings {
  const host = hostOf[rank] ?? 0;
  const others = (ranks: readonly number[]) => ranks.filter((other) => other !== rank);
  const neighbours = others(hosts[host] ?? []);
  if (hosts.length > 1 && bridge === undefined) {
    throw new RangeError(`Device ${rank} needs a bridge: there are ${hosts.length} hosts`);
  }
  const bridges = hosts.length > 1 && bridge !== undefined ? [bridge] : [];
  const targets = hostOf.map((of, other) => (of === host ? [other] : bridges));
  return {
    host,
    peers: others(hostOf.map((_, other) => other)),
    neighbours,
    everybody: [...neighbours, ...bridges],
    bridges,
    isLocal: (other) => hostOf[other] === host,
    towards: (other) => targets[other] ?? [],
  };
}
