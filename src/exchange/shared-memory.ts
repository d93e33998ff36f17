// The exchange between devices of one host: a sender writes straight into the receiver's inbox in
// shared memory, and two kinds of cells keep them apart.
//
//   published[from][to]   round that `from` has written for `to`
//   closed[to]            round whose inbox `to` has given back
//
// Invariants
//   E1. Nobody writes into an inbox that its owner has not closed.
//   E2. Nobody reads a part before it was published.
//   E3. The all-reduce folds each element once, on one device, in the order of the slice tree.

import type { Tensor } from "../kernels/kernels.ts";
import type { Cells } from "./cells.ts";
import type {
  AllReduce,
  AllToAll,
  Exchange,
  ExchangeKernels,
  ExchangeShape,
  PartBytes,
  Region,
} from "./exchange.ts";

/**
 * Parts and inboxes begin at multiples of this: a cache line, and every typed array's alignment.
 */
const alignment = 64;

const channelNames = ["ids", "pooled", "dPooled", "losses", "scores"] as const;
type ChannelName = (typeof channelNames)[number];

const what: Record<ChannelName, string> = {
  ids: "the ids",
  pooled: "the pooled embeddings",
  dPooled: "the gradients of pooled embeddings",
  losses: "the losses",
  scores: "the scores",
};

/** Where everything lies. A pure function of the shape: every thread computes the same one. */
export interface SharedMemoryLayout {
  readonly bytes: number;
  /** Cells that the exchange uses, from `cellBase` on. */
  readonly cells: number;
  readonly inboxes: Readonly<Record<ChannelName, readonly number[]>>;
  /** First byte of each device's subtrees, and of the sum. */
  readonly subtrees: readonly number[];
  readonly sum: number;
}

export function layoutOf(shape: ExchangeShape): SharedMemoryLayout {
  const { devices } = shape;
  let bytes = 0;
  const reserve = (size: number): number => {
    const at = bytes;
    bytes = alignUp(bytes + size);
    return at;
  };
  const inboxesOf = (name: ChannelName): number[] => {
    const ranks = Array.from({ length: devices }, (_, to) => to);
    return ranks.map((to) => reserve(inboxBytes(shape.bytesMax[name], devices, to)));
  };
  const inboxes = {
    ids: inboxesOf("ids"),
    pooled: inboxesOf("pooled"),
    dPooled: inboxesOf("dPooled"),
    losses: inboxesOf("losses"),
    scores: inboxesOf("scores"),
  };
  const vector = alignUp(shape.gradientLength * 4);
  const subtrees = shape.subtrees.map((trees) => reserve(trees.length * vector));
  const sum = reserve(vector);
  const cells = channelNames.length * (devices * devices + devices) + 3 * devices;
  return { bytes: Math.max(bytes, alignment), cells, inboxes, subtrees, sum };
}

/** The exchange of device `rank` over `memory` (of at least `layout.bytes`) and its cells. */
export function createSharedMemoryExchange(options: {
  readonly shape: ExchangeShape;
  readonly rank: number;
  readonly memory: ArrayBufferLike;
  readonly cells: Cells;
  readonly kernels: ExchangeKernels;
}): Exchange {
  const { shape, rank } = options;
  const layout = layoutOf(shape);
  const { devices } = shape;
  const perChannel = devices * devices + devices;
  const channel = (name: ChannelName) =>
    createAllToAll({
      ...options,
      devices,
      what: what[name],
      inboxes: layout.inboxes[name],
      cellBase: channelNames.indexOf(name) * perChannel,
    });
  return {
    rank,
    devices,
    ids: channel("ids"),
    pooled: channel("pooled"),
    dPooled: channel("dPooled"),
    losses: channel("losses"),
    scores: channel("scores"),
    gradients: createAllReduce({ ...options, layout, cellBase: channelNames.length * perChannel }),
  };
}

function createAllToAll(options: {
  readonly rank: number;
  readonly devices: number;
  readonly what: string;
  readonly memory: ArrayBufferLike;
  readonly inboxes: readonly number[];
  readonly cells: Cells;
  readonly cellBase: number;
}): AllToAll {
  const { rank, devices, memory, inboxes, cells, cellBase } = options;
  const published = (from: number, to: number) => cellBase + from * devices + to;
  const closed = (to: number) => cellBase + devices * devices + to;
  const peers = othersThan(rank, devices);
  let round = 0;
  let bytes: PartBytes = () => 0;

  return {
    async open(partBytes) {
      const before = round;
      round++;
      bytes = partBytes;
      for (const peer of peers) {
        await cells.waitUntil(
          () => `device ${peer} to give back its inbox of ${options.what} (round ${before})`,
          () => cells.load(closed(peer)) >= before, // E1
        );
      }
    },

    outbox(to) {
      let byteOffset = inboxes[to] ?? 0;
      for (let from = 0; from < rank; from++) byteOffset += bytes(from, to);
      return { buffer: memory, byteOffset, byteLength: bytes(rank, to) };
    },

    start() {
      for (const peer of peers) cells.store(published(rank, peer), round, [peer]);
    },

    async finish(): Promise<Region> {
      for (const peer of peers) {
        await cells.waitUntil(
          () => `${options.what} of device ${peer} (round ${round})`,
          () => cells.load(published(peer, rank)) >= round, // E2
        );
      }
      const byteLength = inboxBytes(bytes, devices, rank);
      return { buffer: memory, byteOffset: inboxes[rank] ?? 0, byteLength };
    },

    close() {
      cells.store(closed(rank), round, peers);
    },
  };
}

function createAllReduce(options: {
  readonly shape: ExchangeShape;
  readonly rank: number;
  readonly memory: ArrayBufferLike;
  readonly cells: Cells;
  readonly kernels: ExchangeKernels;
  readonly layout: SharedMemoryLayout;
  readonly cellBase: number;
}): AllReduce {
  const { shape, rank, memory, cells, kernels, layout, cellBase } = options;
  const { devices, gradientLength } = shape;
  const published = (device: number) => cellBase + device;
  const folded = (device: number) => cellBase + devices + device;
  const closed = (device: number) => cellBase + 2 * devices + device;
  const peers = othersThan(rank, devices);
  const vector = alignUp(gradientLength * 4);
  const subtree = (device: number, index: number, first: number, count: number): Tensor =>
    kernels.view(memory, (layout.subtrees[device] ?? 0) + index * vector + first * 4, [count]);

  // E3: device r folds the elements of range r.
  const chunk = Math.ceil(gradientLength / devices / 16) * 16;
  const first = Math.min(gradientLength, rank * chunk);
  const count = Math.min(gradientLength, first + chunk) - first;
  const trees = shape.subtrees.flat();
  const parts = shape.subtrees.flatMap((owned, device) =>
    owned.map((_, index) => subtree(device, index, first, count)),
  );
  const foldedRange = kernels.view(memory, layout.sum + first * 4, [count]);
  const sum = kernels.view(memory, layout.sum, [gradientLength]);
  const mine = shape.subtrees[rank] ?? [];
  let round = 0;

  const waitForAll = async (cell: (device: number) => number, at: number, verb: string) => {
    for (const peer of peers) {
      await cells.waitUntil(
        () => `device ${peer} to ${verb} the dense gradients (round ${at})`,
        () => cells.load(cell(peer)) >= at,
      );
    }
  };

  return {
    subtrees: mine.map((_, index) => subtree(rank, index, 0, gradientLength)),

    async open() {
      const before = round;
      round++;
      await waitForAll(closed, before, "close"); // E1
    },

    start() {
      cells.store(published(rank), round, peers);
    },

    async finish() {
      await waitForAll(published, round, "send"); // E2
      if (count > 0) kernels.foldSubtrees(foldedRange, parts, trees, shape.slices);
      cells.store(folded(rank), round, peers);
      await waitForAll(folded, round, "add up");
      return sum;
    },

    close() {
      cells.store(closed(rank), round, peers);
    },
  };
}

function inboxBytes(bytes: PartBytes, devices: number, to: number): number {
  let total = 0;
  for (let from = 0; from < devices; from++) total += bytes(from, to);
  return total;
}

function othersThan(rank: number, devices: number): number[] {
  return Array.from({ length: devices }, (_, device) => device).filter((other) => other !== rank);
}

function alignUp(bytes: number): number {
  return Math.ceil(bytes / alignment) * alignment;
}
