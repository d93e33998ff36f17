// The lookups of the output dist on the device of the rows, in pieces: the vectors found so far for
// a device of another host travel while the next rows are looked up.

import { axisAt } from "../../data/sessions/ikjt.ts";
import type { Slab } from "../../embedding/rows/slab.ts";
import { aheadBytesMin } from "../../exchange/frame.ts";
import type { Bags, Kernels, PooledPart, Tensor } from "../../kernels/contract/kernels.ts";
import type { AxisBlock } from "../topology/fresh-and-stale.ts";
import type { HeldLookup } from "../topology/held-shard.ts";
import type { Topology } from "../topology/topology.ts";
import type { Axes } from "./axes.ts";
import { partIn } from "./group-vectors.ts";
import type { StepPlan } from "./step-plan.ts";

/**
 * The other devices and this one, in the order in which their parts are written: first those of
 * other hosts, from the next one on, so that hosts do not all send to the same one at once. Host
 * sums are read in the order of devices.
 */
export function* sendOrder(topology: Topology, rank: number): Iterable<number> {
  const { hostOf, hostSumsOf, devices } = topology;
  const isSummed = hostSumsOf.some(({ length }) => length > 0);
  const first = isSummed ? 0 : rank + 1;
  for (const isNear of [false, true]) {
    for (let i = 0; i < devices; i++) {
      const peer = (first + i) % devices;
      if ((hostOf[peer] === hostOf[rank]) === isNear) yield peer;
    }
  }
}

/** The bags of one device's samples among those of all, and the axes of that device. */
export interface BagsOf {
  readonly bags: Bags;
  readonly axes: Axes;
  readonly firstSample: number;
  readonly plan: Pick<StepPlan, "average">;
}

/** The vectors of lookups that are looked up, (U, columns) for each range of lookups. */
export class FoundVectors {
  readonly #found: { readonly block: AxisBlock; readonly out: Tensor }[] = [];

  add(block: AxisBlock, out: Tensor): void {
    this.#found.push({ block, out });
  }

  /** Whether the vectors of a lookup are there: ranges are looked up in the order of columns. */
  has({ column }: HeldLookup): boolean {
    const last = this.#found.at(-1)?.block;
    return last !== undefined && column < last.column + last.columns;
  }

  partOf(lookup: HeldLookup): PooledPart {
    // Blocks lie side by side.
    const found = this.#found;
    let [low, high] = [0, found.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const { column = 0, columns = 0 } = found[middle]?.block ?? {};
      if (column + columns <= lookup.column) low = middle + 1;
      else high = middle;
    }
    const own = found[low];
    if (own === undefined || lookup.column < own.block.column)
      throw new RangeError(`Lookup ${lookup.lookup} was not looked up`);
    return partIn(own.out, own.block)(lookup);
  }
}

/**
 * Looks up ranges of lookups for one device, into memory that `take` returns for an offset in
 * floats and a shape. Yields the floats written so far, at most `floatsMax` more each time.
 */
export function* lookUp(
  { kernels, slab }: { readonly kernels: Kernels; readonly slab: Pick<Slab, "lookup"> },
  blocks: Iterable<AxisBlock>,
  { bags, axes, firstSample, plan }: BagsOf,
  take: (floats: number, shape: readonly number[]) => Tensor,
  { found, floatsMax }: { readonly found: FoundVectors; readonly floatsMax: number },
): Generator<number> {
  let floats = 0;
  for (const block of blocks) {
    const { columns } = block;
    const { rows, runs } = axisAt(axes, block.axis);
    const out = take(floats, [rows, columns]);
    const rowsMax = Math.max(1, Math.floor(floatsMax / columns));
    let row = 0;
    for (const { first, count } of runs) {
      for (let at = 0; at < count; at += rowsMax) {
        const some = Math.min(rowsMax, count - at);
        const to = kernels.part(out, row, some);
        slab.lookup(to, bags, firstSample + first + at, some, block, plan.average);
        row += some;
        if (row < rows) yield floats + row * columns;
      }
    }
    floats += rows * columns;
    found.add(block, out); // Only now: all runs of the block are looked up.
    yield floats;
  }
}

/** Cuts ranges of lookups into table groups, whose vectors have enough bytes to leave ahead. */
export function* tableGroups(
  blocks: readonly AxisBlock[],
  lookups: readonly HeldLookup[],
  bytesOf: (one: HeldLookup) => number,
): Generator<AxisBlock> {
  for (const block of blocks) {
    let { first, column } = block;
    let [columns, bytes] = [0, 0];
    const end = block.first + block.count;
    for (let at = first; at < end; at++) {
      const one = lookups[at];
      if (one === undefined) throw new RangeError(`The device has no lookup ${at}`);
      columns += one.columns;
      bytes += bytesOf(one);
      if (bytes < aheadBytesMin && at + 1 < end) continue;
      yield { axis: block.axis, first, count: at + 1 - first, column, columns };
      [first, column] = [at + 1, column + columns];
      [columns, bytes] = [0, 0];
    }
  }
}
