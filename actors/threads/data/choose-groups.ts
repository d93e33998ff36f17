// Chooses the lists that a run deduplicates (IKJT: src/data/sessions/ikjt.ts): reads the first
// batches of the first epoch in the order of the run, and keeps the groups of features for which
// deduplication pays. The choice is part of the arithmetic, so it depends on the job and its data
// only, not on the devices.

import { piecesAt } from "../../../src/data/cache/pieces.ts";
import {
  type BatchMemory,
  type Dataset,
  memoryFor,
  readSamples,
} from "../../../src/data/dataset.ts";
import type { EpochOrder } from "../../../src/data/sample-order.ts";
import { IkjtMaker } from "../../../src/data/sessions/ikjt.ts";
import type { IkjtSpec } from "../../../src/data/sessions/ikjt-options.ts";
import { dedupeFactor, proposeGroups, RepeatCounter } from "../../../src/data/sessions/repeats.ts";
import { slicesOf } from "../../../src/kernels/contract/slices.ts";
import type { GroupChoice } from "../generation-schema.ts";

/** Most samples read for the choice, rounded up to whole batches. */
const samplesMax = 100_000;
/** Samples after which `auto` gives up if no list repeats half as often as it would have to. */
const triedSamples = 25_000;

/** The run for which groups are chosen. */
export interface ChoiceInput {
  readonly spec: IkjtSpec;
  /** Names of the features, in order. */
  readonly features: readonly string[];
  readonly dataset: Dataset;
  readonly order: Pick<EpochOrder, "fill" | "rangesAt">;
  readonly batchSize: number;
  readonly slices: number;
}

/**
 * Returns the requested groups, or those found by `auto`; groups that pay are marked `isChosen`.
 */
export async function chooseGroups(input: ChoiceInput): Promise<GroupChoice[]> {
  const { spec, features, dataset } = input;
  const repeats = new RepeatCounter(dataset);
  const count = (batch: BatchMemory, bounds: Int32Array) => repeats.count(batch, bounds);
  const tried = await eachBatch(input, [0, triedSamples], count);
  const hopeless = (1 + spec.threshold) / 2;
  if (spec.groups === "auto" && proposeGroups(repeats, hopeless).length === 0) return [];
  await eachBatch(input, [tried, samplesMax], count);
  const groups =
    spec.groups === "auto"
      ? proposeGroups(repeats, spec.threshold)
      : spec.groups.map((names) => names.map((name) => features.indexOf(name)));
  if (groups.length === 0) return [];
  const maker = new IkjtMaker(groups, dataset);
  const grouped = new RepeatCounter(dataset, groups);
  await eachBatch(input, [0, samplesMax], (batch, bounds) => {
    grouped.count(batch, bounds);
    maker.make({ ...batch, inverse: new Int32Array(groups.length * (bounds.at(-1) ?? 0)) }, bounds);
  });
  return groups.map((group, i): GroupChoice => {
    const { lists = 0, distinctLists = 1, ids = 0, distinctIds = 0 } = maker.counts[i] ?? {};
    // Empty lists cost nothing, so the factor counts ids, if there are any.
    const factor = ids > 0 ? ids / distinctIds : lists / Math.max(1, distinctLists);
    return {
      features: group.map((feature) => features[feature] ?? ""),
      factor,
      predicted: dedupeFactor(grouped.repeatedShare(i)),
      isChosen: factor >= spec.threshold,
    };
  });
}

/**
 * Calls `use` with batches of the first epoch and the bounds of their slices. `[from, until]`:
 * first sample of the first batch, and the end. Returns the first sample of the next batch.
 */
async function eachBatch(
  { dataset, order, batchSize, slices }: ChoiceInput,
  [from, until]: readonly [number, number],
  use: (batch: BatchMemory, bounds: Int32Array) => void,
): Promise<number> {
  const end = Math.min(dataset.samples, until);
  let all = memoryFor(dataset, Math.min(batchSize, dataset.samples));
  let first = from;
  for (; first < end; first += batchSize) {
    const samples = Math.min(batchSize, dataset.samples - first);
    const ranges = order.rangesAt(0, first, samples);
    const held = ranges ?? piecesAt(dataset, first, samples);
    if (held !== undefined) await dataset.hold(held.now, held.next);
    const indices = new Float64Array(samples);
    order.fill(indices, 0, first);
    const lengths = all.lengths.subarray(0, samples * dataset.features);
    const batch = readSamples(dataset, indices, { ...all, lengths });
    all = { ...batch, lengths: all.lengths };
    use(batch, slicesOf(0, slices, slices, samples).bounds);
  }
  return first;
}
