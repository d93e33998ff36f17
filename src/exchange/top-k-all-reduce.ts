// The top-k all-reduce of one device, for jobs with `exchange.topk` (MSTopK and HiTopKComm: Shi et
// al., MLSys 2021; error feedback: Stich et al., NeurIPS 2018). The gradients of dense layers are
// summed exactly over each group of slices. Of each sum only the elements of largest size are sent
// to all hosts, in bfloat16; what is not sent stays in a residual, and is added to the sum of the
// next step. Elements after the selected ones (data-parallel tables) are summed exactly.
//
//   devices of a group ──subtrees──▶ owner of a unit: sum + residual ──largest──▶ all hosts
//   devices of a host: each adds the selected elements of all groups over its part of the vector
//
//   published[rank]             round of the subtrees that `rank` has written (all-reduce.ts)
//   partialFolded[host][rank]   round for which `host` has folded its part of the units of `rank`
//   picked[rank]                round in which `rank` has selected the elements of its units
//   added[rank]                 round for which `rank` has added its elements of the sum
//
// Invariants
//   T1. A unit's sum is in the order of the slice tree, and selected elements are added group by
//       group. So the bits depend on groups, ranges and share, and on nothing else (law 4).
//   T2. A device selects elements of a round after all devices have added those of the round
//       before: so it overwrites no bytes that are still read, and a route never carries two
//       rounds.
//   T3. A device finishes a round only after all devices have selected their elements, and so have
//       read its subtrees.

import type { Selected, Tensor } from "../kernels/contract/kernels.ts";
import type { Subtree } from "../kernels/contract/slices.ts";
import { lowerBound } from "../ports/lower-bound.ts";
import { type AllReduceOptions, createAllReduce } from "./all-reduce.ts";
import { waitForEach } from "./cells.ts";
import type { AllReduce, Elements, Residual } from "./exchange.ts";
import type { TopKLayout, TopKUnit } from "./top-k-layout.ts";

interface TopKOptions extends AllReduceOptions {
  readonly at: TopKLayout;
}

/** Subtrees of a group, and where the sum over some of its slices goes. */
interface Fold {
  readonly out: Tensor;
  readonly parts: readonly Tensor[];
  /** Relative to the first of `slices` slices. */
  readonly trees: readonly Subtree[];
  readonly slices: number;
}

export function createTopKAllReduce(options: TopKOptions): AllReduce {
  const { shape, rank, memory, cells, kernels, layout, around, sent, at } = options;
  const { gradients } = layout;
  const { host, peers, neighbours } = around;
  const exact = createAllReduce(options);
  const [bucket] = gradients.buckets;
  const hasExact = bucket?.ranges.some(({ count }) => count > 0) === true;
  const published = (peer: number) => bucket?.published(peer) ?? 0;
  const { forOthers, own, sharers } = foldsOf(options);
  const residuals = own.map(({ unit }): Residual => {
    return { slice: unit.slice, values: kernels.tensor([unit.range.count]) };
  });
  const sum = kernels.view(memory, gradients.sum, [shape.gradientLength]);
  const perRound = sentPerRound(options);
  const toSend = (peer: number) => `device ${peer} to send the dense gradients`;
  const toAdd = (peer: number) => `device ${peer} to add up the dense gradients`;
  let round = 0;

  const fold = ({ out, parts, trees, slices }: Fold) =>
    kernels.foldSubtrees(out, parts, trees, slices);
  const selectedOf = (unit: TopKUnit): Selected => {
    const first = at.indices(unit);
    return {
      indices: new Int32Array(memory, first, unit.count),
      codes: new Uint16Array(memory, first + 4 * unit.count, unit.count),
    };
  };

  /** Sends the largest elements of this device's units. */
  async function select(): Promise<void> {
    await waitForEach(cells, neighbours, published, round, toSend);
    for (const { of, folds } of forOthers) {
      folds.forEach(fold);
      cells.store(at.partialFolded(host, of), round, around.towards(of));
    }
    for (const other of sharers) {
      const partial = () => at.partialFolded(other, rank);
      await waitForEach(cells, [gradients.folder(other, rank)], partial, round, toSend);
    }
    await waitForEach(cells, peers, at.added, round - 1, toAdd); // T2
    for (const [i, { unit, group }] of own.entries()) {
      const residual = residuals[i];
      if (residual === undefined || unit.count === 0) continue;
      const [only = group.out] = group.parts;
      if (group.parts.length > 1) fold(group);
      const total = group.parts.length > 1 ? group.out : only;
      kernels.selectLargest(selectedOf(unit), residual.values, total);
    }
    cells.store(at.picked(rank), round, around.everybody);
  }

  /** Adds the selected elements of all groups over this device's part of the vector. */
  function add(mine: Elements): void {
    const end = mine.first + mine.count;
    kernels.fill(kernels.part(sum, mine.first, mine.count), 0);
    for (const unit of at.units) {
      const { first, count } = unit.range;
      if (first >= end || first + count <= mine.first) continue;
      const { indices, codes } = selectedOf(unit);
      const from = lowerBound(indices, mine.first - first);
      const to = lowerBound(indices, end - first);
      const some = { indices: indices.subarray(from, to), codes: codes.subarray(from, to) };
      kernels.addSelected(kernels.part(sum, first, count), some);
    }
  }

  async function finish(): Promise<Tensor> {
    await select();
    if (hasExact) await exact.finish();
    const toPick = (peer: number) => `device ${peer} to select dense gradients`;
    await waitForEach(cells, peers, at.picked, round, toPick);
    add(partInHost(options));
    cells.store(at.added(rank), round, neighbours);
    await waitForEach(cells, neighbours, at.added, round, toAdd); // T3
    sent.shared += perRound.shared;
    sent.wire += perRound.wire;
    return sum;
  }

  const range = partOf(shape.gradientLength, rank, shape.devices);
  return {
    subtrees: exact.subtrees,
    ranges: [range],
    residuals,

    async open() {
      round++;
      await exact.open();
    },

    start: exact.start,
    progress() {}, // Elements are selected when all gradients are there.

    async scatter() {
      return [kernels.part(await finish(), range.first, range.count)];
    },

    finish,
    close: exact.close,
  };
}

/** The folds of this host's part of the units of other hosts, and of this device's own units. */
function foldsOf({ shape, rank, memory, kernels, layout, around, at }: TopKOptions) {
  const { hosts, gradients } = layout;
  const { host, peers, isLocal } = around;
  const others = [...hosts.keys()].filter((other) => other !== host);

  /** The subtrees of this host's devices inside a run of slices, over the elements of a range. */
  const inside = (run: Subtree, { first, count }: Elements) => {
    const found: { part: Tensor; tree: Subtree }[] = [];
    for (const device of hosts[host] ?? []) {
      for (const [index, tree] of (shape.subtrees[device] ?? []).entries()) {
        if (tree.first < run.first || tree.first >= run.first + run.count) continue;
        const byte = gradients.subtree(device, index) + 4 * first;
        found.push({ part: kernels.view(memory, byte, [count]), tree });
      }
    }
    return found;
  };
  const foldOf = (
    out: Tensor,
    of: readonly { part: Tensor; tree: Subtree }[],
    run: Subtree,
  ): Fold => {
    const trees = of.map(({ tree }) => ({ ...tree, first: tree.first - run.first }));
    return { out, parts: of.map(({ part }) => part), trees, slices: run.count };
  };
  /** The sums of a host's subtrees over the units of a device of another host. */
  const partials = (of: number, owner: number) => {
    let next = at.partial(of, owner).first;
    return at.unitsOf(owner).map((unit) =>
      at.treesIn(of, unit).map((tree) => {
        const part = kernels.view(memory, next, [unit.range.count]);
        next += 4 * unit.range.count;
        return { part, tree, unit };
      }),
    );
  };

  const forOthers = peers
    .filter((of) => !isLocal(of) && gradients.folder(host, of) === rank)
    .filter((of) => at.partial(host, of).bytes > 0)
    .map((of) => {
      const folds = partials(host, of).flat();
      return {
        of,
        folds: folds.map(({ part, tree, unit }) => foldOf(part, inside(tree, unit.range), tree)),
      };
    });
  const sharers = others.filter((other) => at.partial(other, rank).bytes > 0);
  const received = new Map(sharers.map((other) => [other, partials(other, rank)]));
  const mine = at.unitsOf(rank);
  const scratch = kernels.tensor([Math.max(0, ...mine.map(({ range }) => range.count))]);
  const own = mine.map((unit, i) => {
    const parts = [...hosts.keys()].flatMap((of) => {
      return of === host ? inside(unit.group, unit.range) : (received.get(of)?.[i] ?? []);
    });
    const out = kernels.part(scratch, 0, unit.range.count);
    return { unit, group: foldOf(out, parts, unit.group) };
  });
  return { forOthers, own, sharers };
}

/** The elements that this device adds for its host: an even part of the selected ones. */
function partInHost({ shape, rank, layout, around }: TopKOptions): Elements {
  const ranks = layout.hosts[around.host] ?? [];
  return partOf(shape.topK?.length ?? 0, ranks.indexOf(rank), ranks.length);
}

/** Part `index` of `parts` even parts of a vector, in whole cache lines. */
function partOf(length: number, index: number, parts: number): Elements {
  const chunk = Math.ceil(length / parts / 16) * 16;
  const first = Math.min(length, index * chunk);
  return { first, count: Math.min(length, first + chunk) - first };
}

/** Bytes of selected elements and of partial sums that others receive of a device, per round. */
function sentPerRound({ rank, layout, around, at }: TopKOptions) {
  const { hosts, gradients } = layout;
  const { bytes } = at.selected(rank);
  const folded = around.peers
    .filter((of) => !around.isLocal(of) && gradients.folder(around.host, of) === rank)
    .reduce((sum, of) => sum + at.partial(around.host, of).bytes, 0);
  const neighbours = around.neighbours.length;
  return { shared: neighbours * bytes, wire: (hosts.length - 1) * bytes + folded };
}
