// The all-reduce of one device, in the order of the slice tree, bucket by bucket. In each bucket a
// device completes the sum of one range of elements. Inside a host it reads its neighbours'
// subtrees in place. Between hosts only the finished subtrees of a whole host are sent, and then
// the sum, once to each host:
//
//   host 0                              host 1
//   device 0 ─┐  fold the range         device 2 ─┐
//   device 1 ─┴─ of device 2 ─────────▶ device 2 ─┴─ fold its range ──▶ sum, to hosts 0 and 1
//
// Each bucket has cells of its own, so that the bytes of one travel while the next is computed:
//
//   published[rank]             round of the subtrees that `rank` has written
//   partialFolded[host][rank]   round for which `host` has folded the range of `rank`
//   folded[rank]                round for which `rank` has finished its range of the sum
//   unpacked[rank]              round for which this host has the sum of `rank`, of another host,
//                               in float32; only where sums travel in fewer bits
//
// Invariants
//   A1. Each element is folded in the order of the slice tree, whichever devices and hosts fold it,
//       and in whichever bucket it is.
//   A2. No `close` is needed. A device that publishes a round has finished the round before, so the
//       old sum may be overwritten. A device that has received the sum knows that all subtrees of
//       the round were read. After a reduce-scatter alone, a barrier gives both guarantees.
//   A3. A device that has its neighbours' folds may leave a step while they still update their
//       rows. If a thread ends then, the devices' memories are of two different steps. No
//       generation continues from such memory: a recovery puts rows back to a cut by their undo
//       logs (row-keeper.ts) and reads everything else from the checkpoint.
//   A4. A bucket's cells are stored in the order of its stages, and each after the bytes that it
//       publishes, whether the stage ran in `progress` or in `finish`.

import type { Tensor } from "../kernels/contract/kernels.ts";
import { type BucketFolds, bucketFolds, standsFor } from "./bucket-folds.ts";
import { type Cells, waitForEach } from "./cells.ts";
import type { AllReduce, ExchangeKernels, ExchangeShape, SentBytes } from "./exchange.ts";
import type { BucketLayout, SharedMemoryLayout } from "./layout.ts";
import type { Surroundings } from "./surroundings.ts";

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

/** A stage of a bucket: the cells that it waits for, and its work after that. */
interface Stage {
  /** The devices that it waits for, and the cell of each. */
  readonly peers: readonly number[];
  cellOf(peer: number, at: number): number;
  wait(peer: number): string;
  run(round: number): void;
}

export function createAllReduce(options: AllReduceOptions): AllReduce {
  const { shape, rank, memory, cells, kernels, layout, around, sent } = options;
  const { gradients: at, hosts } = layout;
  const perRound = sentPerRound(options);
  const sum = kernels.view(memory, at.sum, [shape.gradientLength]);
  const largest = at.buckets.map(({ ranges }) => ranges[0]?.count ?? 0);
  const isPacking = shape.rounding !== undefined && hosts.length > 1;
  const scratch = kernels.tensor([isPacking ? Math.max(0, ...largest) : 0]);
  const place = { ...options, slices: shape.slices, scratch };
  const buckets = at.buckets.map((bucket) => {
    const folds = bucketFolds(place, bucket);
    return { bucket, folds, stages: stagesOf(options, bucket, folds), done: 0 };
  });
  const { elements = 0 } = shape.rounding ?? {};
  const trees = at.buckets.map((bucket) => bucket.trees(rank).length);
  const whole = shape.subtrees[rank]?.length ?? 0;
  let round = 0;
  let published = 0;

  /** Runs the stages of all buckets before stage `end`, one stage after the other. */
  async function complete(end: number): Promise<void> {
    for (let index = 0; index < end; index++) {
      for (const own of buckets) {
        const stage = own.stages[index];
        if (stage === undefined || own.done > index) continue;
        await waitForEach(cells, stage.peers, stage.cellOf, round, stage.wait);
        stage.run(round);
        own.done = index + 1;
      }
    }
  }

  async function scatter(): Promise<readonly Tensor[]> {
    await complete(scattered);
    sent.shared += perRound.scatter.shared;
    sent.wire += perRound.scatter.wire;
    return buckets.map(({ folds }) => folds.range);
  }

  return {
    subtrees: Array.from({ length: Math.max(whole, ...trees) }, (_, index) => {
      const length = index < whole ? shape.gradientLength : elements;
      return kernels.view(memory, at.subtree(rank, index), [length]);
    }),
    ranges: at.buckets.map(({ ranges }) => ranges[rank] ?? { first: 0, count: 0 }),
    residuals: [],

    async open() {
      round++;
      published = 0;
      for (const own of buckets) own.done = 0;
    },

    start(count = buckets.length) {
      for (; published < count; published++) {
        const cell = at.buckets[published]?.published(rank);
        if (cell !== undefined) cells.store(cell, round, around.neighbours);
      }
    },

    progress() {
      for (const own of buckets.slice(0, published)) {
        for (let stage = own.stages[own.done]; stage; stage = own.stages[own.done]) {
          const { peers, cellOf } = stage;
          if (!peers.every((peer, i) => cells.load(cellOf(peer, i)) >= round)) break;
          stage.run(round);
          own.done++;
        }
      }
    },

    scatter,

    async finish() {
      await scatter();
      await complete(gathered);
      sent.shared += perRound.gather.shared;
      sent.wire += perRound.gather.wire;
      return sum;
    },

    close() {
      // A2: the next round's `start` implies it.
    },
  };
}

/** Number of stages of a reduce-scatter, and of an all-reduce. */
const [scattered, gathered] = [2, 5];

/** The stages of a bucket on a device (A4). */
function stagesOf(
  { rank, cells, layout, around }: AllReduceOptions,
  bucket: BucketLayout,
  { forOthers, foldRange, sums }: BucketFolds,
): Stage[] {
  const { hosts, hostOf, gradients: at } = layout;
  const { host, neighbours, peers } = around;
  const { published, partialFolded, folded, unpacked } = bucket;
  const send = (peer: number) => `device ${peer} to send the dense gradients`;
  const addUp = (peer: number) => `device ${peer} to add up the dense gradients`;
  const otherHosts = [...hosts.keys()].filter((other) => other !== host);
  const isPacked = bucket.rounding !== undefined && otherHosts.length > 0;
  // The sums of other hosts that this device does not unpack itself.
  const mine = new Set(sums.map(({ of }) => of));
  const others = isPacked ? peers.filter((peer) => !mine.has(peer)) : peers;
  const isUnpacked = (peer: number) => isPacked && !around.isLocal(peer);
  return [
    {
      ...{ peers: neighbours, cellOf: published, wait: send },
      run(round) {
        for (const { of, fold } of forOthers) {
          fold();
          cells.store(partialFolded(host, of), round, around.towards(of));
        }
      },
    },
    {
      peers: otherHosts.map((other) => at.folder(other, rank)),
      cellOf: (peer) => partialFolded(hostOf[peer] ?? 0, rank),
      wait: send,
      run: foldRange,
    },
    {
      ...{ peers: [], cellOf: folded, wait: send },
      run(round) {
        cells.store(folded(rank), round, around.everybody);
      },
    },
    {
      ...{ peers: sums.map(({ of }) => of), cellOf: folded, wait: addUp },
      run(round) {
        for (const { of, unpack } of sums) {
          unpack();
          cells.store(unpacked(of), round, neighbours);
        }
      },
    },
    {
      peers: others.map((peer) => (isUnpacked(peer) ? at.folder(host, peer) : peer)),
      cellOf(_, i) {
        const of = others[i] ?? 0;
        return isUnpacked(of) ? unpacked(of) : folded(of);
      },
      wait: addUp,
      run() {},
    },
  ];
}

/** Bytes that others read of a device's subtrees, and of its ranges of the sum, per round. */
function sentPerRound(options: AllReduceOptions): { scatter: SentBytes; gather: SentBytes } {
  const { rank, layout, around } = options;
  const { hosts, gradients: at } = layout;
  const forOthers = standsFor(options);
  const scatter = { shared: 0, wire: 0 };
  const gather = { shared: 0, wire: 0 };
  for (const { ranges, trees, partial, sent } of at.buckets) {
    const elements = (of: number) => ranges[of]?.count ?? 0;
    const all = ranges.reduce((sum, { count }) => sum + count, 0);
    const folded = forOthers.reduce((sum, of) => sum + elements(of), elements(rank));
    scatter.shared += trees(rank).length * 4 * (all - folded);
    scatter.wire += forOthers.reduce((sum, of) => sum + partial(around.host, of).bytes, 0);
    gather.shared += around.neighbours.length * 4 * elements(rank);
    gather.wire += (hosts.length - 1) * sent(rank).bytes;
  }
  return { scatter, gather };
}
