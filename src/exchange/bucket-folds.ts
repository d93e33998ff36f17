// The folds of one device for one bucket of the dense gradient: its host's part of the ranges of
// devices of other hosts, the whole of its own range, and the sums of other hosts in float32.
//
// In the slice tree, nodes of at least one grain of slices are rounded (`GradientRounding`). They
// are folded as pooled vectors are, with a grain in place of a row block. A grain that lies on
// several devices is folded first, in float32.

import type { Tensor } from "../kernels/contract/kernels.ts";
import type { Subtree } from "../kernels/contract/slices.ts";
import type { ExchangeKernels, Extent, GradientRounding } from "./exchange.ts";
import { type BucketLayout, isRounded, type SharedMemoryLayout } from "./layout.ts";
import type { Surroundings } from "./surroundings.ts";

export interface BucketFolds {
  /** For each device of another host whose range this device folds for its own host. */
  readonly forOthers: readonly { readonly of: number; fold(): void }[];
  /** Folds this device's range of the sum, and packs it for other hosts. */
  foldRange(): void;
  /** This device's range of the sum. */
  readonly range: Tensor;
  /** For each device of another host whose sum this device unpacks for its own host. */
  readonly sums: readonly { readonly of: number; unpack(): void }[];
}

export interface BucketPlace {
  readonly rank: number;
  readonly memory: ArrayBufferLike;
  readonly kernels: ExchangeKernels;
  readonly layout: SharedMemoryLayout;
  readonly around: Surroundings;
  readonly slices: number;
  /** Flat memory for one range, between its fold and its packing. */
  readonly scratch: Tensor;
}

/** A subtree of slices, and its sum over a range of elements: (1,n). */
interface Part {
  readonly tree: Subtree;
  readonly sum: Tensor;
}

export function bucketFolds(place: BucketPlace, bucket: BucketLayout): BucketFolds {
  const { rank, memory, kernels, layout, around, slices, scratch } = place;
  const { gradients: at, hosts } = layout;
  const { host } = around;
  const { rounding } = bucket;
  const rangeOf = (of: number) => bucket.ranges[of] ?? { first: 0, count: 0 };
  const floats = (first: number, count: number) => kernels.view(memory, first, [1, count]);
  const packed = ({ first }: Extent) => ({ buffer: memory, byteOffset: first });
  const { precision = "bfloat16" } = rounding ?? {};

  /** The subtrees of this host's devices that are inside `tree`, over the range of device `of`. */
  const inside = (tree: Subtree, of: number): Part[] => {
    const { first, count } = rangeOf(of);
    return (hosts[host] ?? []).flatMap((device) =>
      bucket.trees(device).flatMap((own, index) => {
        if (own.first < tree.first || own.first >= tree.first + tree.count) return [];
        const sum = floats(at.subtree(device, index) + 4 * first, count);
        return [{ sum, tree: { first: own.first - tree.first, count: own.count } }];
      }),
    );
  };

  const mine = standsFor(place);
  const hostTrees = at.hostTrees[host] ?? [];
  const forOthers = mine.map((of) => {
    const { count } = rangeOf(of);
    const folds = hostTrees.map((tree, index) => {
      const to = bucket.partialTree(host, of, index);
      const isPacked = isRounded(rounding, tree);
      const out = isPacked ? kernels.reshape(scratch, [1, count]) : floats(to.first, count);
      const fold = folder(kernels, out, inside(tree, of), tree.count, rounding);
      if (!isPacked) return fold;
      return () => {
        fold();
        kernels.packColumns(packed(to), out, 0, count, precision);
      };
    });
    return {
      of,
      fold() {
        if (count > 0) for (const fold of folds) fold();
      },
    };
  });

  const { first, count } = rangeOf(rank);
  const unpacks: (() => void)[] = [];
  const parts = hosts.flatMap((_, other): Part[] => {
    if (other === host) return inside({ first: 0, count: slices }, rank);
    return (at.hostTrees[other] ?? []).map((tree, index) => {
      const from = bucket.partialTree(other, rank, index);
      if (!isRounded(rounding, tree)) return { tree, sum: floats(from.first, count) };
      const sum = kernels.tensor([1, count]);
      unpacks.push(() => kernels.unpackColumns(sum, 0, packed(from), count, precision));
      return { tree, sum };
    });
  });
  const out = floats(at.sum + 4 * first, count);
  const isSum = layout.hostOf.length === 1 && at.sum === at.subtree(rank, 0);
  const fold = isSum ? () => {} : folder(kernels, out, parts, slices, rounding);
  const isSentPacked = rounding !== undefined && hosts.length > 1;
  return {
    forOthers,
    foldRange() {
      if (count === 0) return;
      for (const unpack of unpacks) unpack();
      fold();
      if (isSentPacked) {
        kernels.packColumns(packed(bucket.sent(rank)), out, 0, count, precision);
      }
    },
    range: kernels.view(memory, at.sum + 4 * first, [count]),
    sums: (isSentPacked ? mine : []).map((of) => {
      const own = rangeOf(of);
      const to = floats(at.sum + 4 * own.first, own.count);
      const from = packed(bucket.sent(of));
      return {
        of,
        unpack() {
          if (own.count > 0) kernels.unpackColumns(to, 0, from, own.count, precision);
        },
      };
    }),
  };
}

/** Devices of other hosts that `rank` stands for on its own host: it folds and unpacks for them. */
export function standsFor({
  rank,
  layout,
  around,
}: Pick<BucketPlace, "rank" | "layout" | "around">): number[] {
  const { folder: of } = layout.gradients;
  return around.peers.filter((peer) => !around.isLocal(peer) && of(around.host, peer) === rank);
}

/** Returns the fold of parts, which cover `slices` slices, to `out` (1,n). */
function folder(
  kernels: ExchangeKernels,
  out: Tensor,
  parts: readonly Part[],
  slices: number,
  rounding: GradientRounding | undefined,
): () => void {
  const [, count = 0] = out.shape;
  const sums = parts.map(({ sum }) => sum);
  if (rounding === undefined || slices < rounding.grain) {
    const trees = parts.map(({ tree }) => tree);
    let repeat: (() => void) | undefined;
    const fold = () => kernels.foldSubtrees(out, sums, trees, slices);
    return () => {
      if (repeat === undefined) repeat = kernels.recorded(fold);
      else repeat();
    };
  }
  const { grain, precision } = rounding;
  const small = parts.filter(({ tree }) => tree.count < grain);
  const firsts = [...new Set(small.map(({ tree }) => grain * Math.floor(tree.first / grain)))];
  const grains = firsts.map((first) => {
    const own = small.filter(({ tree }) => tree.first >= first && tree.first < first + grain);
    const parted = own.map(({ sum, tree }) => {
      return { sum, tree: { first: tree.first - first, count: tree.count } };
    });
    const sum = kernels.tensor([1, count]);
    const fold = folder(kernels, sum, parted, grain, undefined);
    return { part: { sum, tree: { first, count: grain } }, fold };
  });
  const whole = parts.filter(({ tree }) => tree.count >= grain);
  const blocks = [...whole, ...grains.map(({ part }) => part)]
    .sort((a, b) => a.tree.first - b.tree.first)
    .map(({ sum, tree }) => {
      const inGrains = { first: tree.first / grain, count: tree.count / grain };
      return { from: sum, first: 0, tree: inGrains };
    });
  return () => {
    for (const { fold } of grains) fold();
    kernels.foldPooled(out, 0, blocks, slices / grain, count, undefined, precision);
  };
}
