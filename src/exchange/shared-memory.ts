// The exchange of one device over its host's shared memory: all collectives over one set of cells.
// The host's bridge sends the bytes for other hosts.

import { createAllGather } from "./all-gather.ts";
import { createAllReduce } from "./all-reduce.ts";
import { createAllToAll } from "./all-to-all.ts";
import { type Cells, waitForEach } from "./cells.ts";
import {
  type AllToAll,
  type AllToAllName,
  allToAllNames,
  type ChannelName,
  channelNames,
  type Exchange,
  type ExchangeKernels,
  type ExchangeShape,
  type SentBytes,
} from "./exchange.ts";
import { layoutOf, type SharedMemoryLayout } from "./layout.ts";
import { type Surroundings, surroundingsOf } from "./surroundings.ts";
import { createTopKAllReduce } from "./top-k-all-reduce.ts";

/**
 * The exchange of device `rank` over `memory` (of at least `layoutOf(shape, host).bytes`) and the
 * cells of its host. `bridge` is the participant that carries bytes to other hosts, if there are
 * any.
 */
export function createSharedMemoryExchange(options: {
  readonly shape: ExchangeShape;
  readonly rank: number;
  readonly memory: ArrayBufferLike;
  readonly cells: Cells;
  /** Cells per channel, so that waits can be measured by channel; left out: `cells` for all. */
  readonly cellsFor?: (channel: ChannelName | "gradients") => Cells;
  readonly kernels: ExchangeKernels;
  readonly bridge?: number;
}): Exchange {
  const { shape, rank, bridge, cellsFor = () => options.cells } = options;
  const { devices } = shape;
  const layout = layoutOf(shape, shape.hostOf?.[rank]);
  const place = { ...options, layout, around: surroundingsOf(layout, rank, bridge) };
  const sent = Object.fromEntries(
    [...channelNames, "gradients"].map((name) => [name, { shared: 0, wire: 0 }]),
  ) as Record<ChannelName | "gradients", SentBytes>;
  const placeOf = <Name extends ChannelName | "gradients">(name: Name) => {
    return { ...place, name, cells: cellsFor(name), sent: sent[name] };
  };
  const allToAlls = Object.fromEntries(
    allToAllNames.map((name) => [name, createAllToAll(placeOf(name))]),
  ) as Record<AllToAllName, AllToAll>;
  return {
    rank,
    devices,
    ...allToAlls,
    losses: createAllGather(placeOf("losses")),
    statistics: createAllGather(placeOf("statistics")),
    gradients: layout.topK
      ? createTopKAllReduce({ ...placeOf("gradients"), at: layout.topK })
      : createAllReduce(placeOf("gradients")),
    barrier: createBarrier(place),
    sent,
  };
}

// The barrier of one device. Between hosts only cells are sent, without bytes.
//
//   arrived[rank]   number of barriers that `rank` has reached

export function createBarrier(options: {
  readonly rank: number;
  readonly cells: Cells;
  readonly layout: SharedMemoryLayout;
  readonly around: Surroundings;
}): () => Promise<void> {
  const { rank, cells, layout, around } = options;
  const { arrived } = layout;
  let round = 0;
  return async () => {
    round++;
    cells.store(arrived(rank), round, around.everybody);
    const wait = (peer: number) => `device ${peer} to reach the barrier`;
    await waitForEach(cells, around.peers, arrived, round, wait);
  };
}
