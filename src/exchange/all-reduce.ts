// The all-reduce of one device, in the order of the slice tree. Each device completes the sum of
// one range of elements. Inside a host it reads its neighbours' subtrees in place. Between hosts
// only the finished subtrees of a whole host are sent, and then the sum, once to each host:
//
//   host 0                              host 1
//   device 0 ─┐  fold the range         device 2 ─┐
//   device 1 ─┴─ of device 2 ─────────▶ device 2 ─┴─ fold its range ──▶ sum, to hosts 0 and 1
//
//   published[rank]             round of the subtrees that `rank` has written
//   partialFolded[host][rank]   round for which `host` has folded the range of `rank`
//   folded[rank]                round for which `rank` has finished its range of the sum
//
// Invariants
//   A1. Each element is folded in the order of the slice tree, whichever devices and hosts fold it.
//   A2. No `close` is needed. A device that publishes a round has finished the round before, so the
//       old sum may be overwritten. A device that has received the sum knows that all subtrees of
//       the round were read. After a reduce-scatter alone, a barrier gives both guarantees.

import type { Tensor } from "../kernels/contract/kernels.ts";
import type { Subtree } from "../kernels/contract/slices.ts";
import { type Cells, waitForEach } from "./cells.ts";
import type { AllReduce, ExchangeKernels, ExchangeShape, SentBytes } from "./exchange.ts";
import type { SharedMemoryLayout } from "./layout.ts";
import type { Surroundings } from "./surroundings.ts";

/** A fold of subtrees to one sum. */
interface Fold {
  readonly out: Tensor;
  readonly parts: readonly Tensor[];
  readonly trees: readonly Subtree[];
  readonly slices: number;
}

export interface AllReduceOptions {
  readonly shape: ExchangeShape;
  readonly rank: number;
  readonly memory: ArrayBufferLike;
  readonly cells: Cells;
  readonly kernels: ExchangeKernels;
  readonly layout: SharedMemoryLayout;
  readonly around: Surroundings;
  readonly sent: SentBytes;
}

export function createAllReduce(options: AllReduceOptions): AllReduce {
  const { shape, rank, memory, cells, kernels, layout, around, sent } = options;
  const { hosts, gradients: at } = layout;
  const { host, peers, neighbours } = around;
  const { forOthers, range } = foldsOf(options);
  const perRound = sentPerRound(options);
  const sum = kernels.view(memory, at.sum, [shape.gradientLength]);
  const otherHosts = [...hosts.keys()].filter((other) => other !== host);
  const what = "the dense gradients";
  let round = 0;

  const fold = ({ out, parts, trees, slices }: Fold) => {
    if (out.shape[0] !== 0) kernels.foldSubtrees(out, parts, trees, slices);
  };

  async function scatter(): Promise<Tensor> {
    const isToSend = (peer: number) => `device ${peer} to send ${what}`;
    await waitForEach(cells, neighbours, at.published, round, isToSend);
    for (const { of, folds } of forOthers) {
      folds.forEach(fold);
      cells.store(at.partialFolded(host, of), round, around.towards(of));
    }
    for (const other of otherHosts) {
      const partial = () => at.partialFolded(other, rank);
      await waitForEach(cells, [at.folder(other, rank)], partial, round, isToSend);
    }
    fold(range);
    sent.shared += perRound.scatter.shared;
    sent.wire += perRound.scatter.wire;
    return range.out;
  }

  return {
    subtrees: (shape.subtrees[rank] ?? []).map((_, index) =>
      kernels.view(memory, at.subtree(rank, index), [shape.gradientLength]),
    ),
    range: at.ranges[rank] ?? { first: 0, count: 0 },
    residuals: [],

    async open() {
      round++;
    },

    start() {
      cells.store(at.published(rank), round, neighbours);
    },

    scatter,

    async finish() {
      await scatter();
      cells.store(at.folded(rank), round, around.everybody);
      await waitForEach(
        cells,
        peers,
        at.folded,
        round,
        (peer) => `device ${peer} to add up ${what}`,
      );
      sent.shared += perRound.gather.shared;
      sent.wire += perRound.gather.wire;
      return sum;
    },

    close() {
      // A2: the next round's `start` implies it.
    },
  };
}

/** Devices of other hosts for whose ranges `rank` folds its own host's part. */
function foldedForOthers({ rank, layout, around }: AllReduceOptions): number[] {
  const { folder } = layout.gradients;
  return around.peers.filter((of) => !around.isLocal(of) && folder(around.host, of) === rank);
}

function foldsOf(options: AllReduceOptions) {
  const { shape, rank, memory, kernels, layout, around } = options;
  const { hosts, gradients: at } = layout;
  const { host } = around;
  const rangeOf = (of: number) => at.ranges[of] ?? { first: 0, count: 0 };

  /** The subtrees of this host's devices that are inside `tree`, over the range of device `of`. */
  const inside = (tree: Subtree, of: number) => {
    const found: { part: Tensor; tree: Subtree }[] = [];
    for (const device of hosts[host] ?? []) {
      for (const [index, own] of (shape.subtrees[device] ?? []).entries()) {
        if (own.first < tree.first || own.first >= tree.first + tree.count) continue;
        const { first, count } = rangeOf(of);
        const part = kernels.view(memory, at.subtree(device, index) + 4 * first, [count]);
        found.push({ part, tree: { first: own.first - tree.first, count: own.count } });
      }
    }
    return found;
  };
  /** Finished subtree `index` of a host, over the range of device `of`. */
  const partial = (ofHost: number, index: number, of: number): Tensor => {
    const { count } = rangeOf(of);
    return kernels.view(memory, at.partial(ofHost, of).first + 4 * index * count, [count]);
  };
  const foldOf = (out: Tensor, of: readonly { part: Tensor; tree: Subtree }[], slices: number) => {
    const parts = of.map(({ part }) => part);
    return { out, parts, trees: of.map(({ tree }) => tree), slices } satisfies Fold;
  };

  const myTrees = at.hostTrees[host] ?? [];
  const forOthers = foldedForOthers(options).map((of) => ({
    of,
    folds: myTrees.map((tree, index) =>
      foldOf(partial(host, index, of), inside(tree, of), tree.count),
    ),
  }));
  const whole = { first: 0, count: shape.slices };
  const parts = hosts.flatMap((_, other) => {
    if (other === host) return inside(whole, rank);
    const trees = at.hostTrees[other] ?? [];
    return trees.map((tree, index) => ({ part: partial(other, index, rank), tree }));
  });
  const { first, count } = rangeOf(rank);
  const mine = kernels.view(memory, at.sum + 4 * first, [count]);
  return { forOthers, range: foldOf(mine, parts, shape.slices) };
}

/** Bytes that others read of a device's subtrees, and of its range of the sum, per round. */
function sentPerRound(options: AllReduceOptions): { scatter: SentBytes; gather: SentBytes } {
  const { shape, rank, layout, around } = options;
  const { hosts, gradients: at } = layout;
  const bytesOfRange = (of: number) => 4 * (at.ranges[of]?.count ?? 0);
  const forOthers = foldedForOthers(options);
  const own = bytesOfRange(rank);
  const folded = forOthers.reduce((bytes, of) => bytes + bytesOfRange(of), own);
  const partials = forOthers.reduce((sum, of) => sum + at.partial(around.host, of).bytes, 0);
  const read = (shape.subtrees[rank] ?? []).length * (4 * shape.gradientLength - folded);
  return {
    scatter: { shared: read, wire: partials },
    gather: { shared: around.neighbours.length * own, wire: (hosts.length - 1) * own },
  };
}
