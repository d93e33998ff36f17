// Determines the samples that a reader holds in memory while it fills the batch of a step, and
// those that it reads ahead: the next ones of its devices, in this epoch or at the start of the
// next. Only where the samples of a batch lie in few places of the file.

import type { Dataset, SampleRange } from "../../../src/data/dataset.ts";
import { piecesAt } from "../../../src/data/pieces-at.ts";
import type { EpochOrder } from "../../../src/training/loop/epoch-order.ts";
import { placesOf, type Schedule } from "../../../src/training/loop/schedule.ts";

/** The inputs that determine the held samples. */
export interface HeldInput {
  readonly schedule: Schedule;
  readonly order: Pick<EpochOrder, "rangesAt">;
  readonly dataset: Pick<Dataset, "isStreamed" | "pieces">;
  /** Position ranges of each device of a reader, in a batch of `samples`. */
  partsOf(samples: number): readonly { readonly first: number; readonly count: number }[];
}

/** The samples to hold for a step, and those to read ahead. Undefined: all are in memory. */
export function heldForStep(
  input: HeldInput,
  step: number,
): { readonly now: SampleRange[]; readonly next: SampleRange[] } | undefined {
  const ranges = rangesOf(input, step);
  if (ranges === undefined || !ranges.isEnd) return ranges;
  const { stepsPerEpoch, begin, steps } = input.schedule;
  const nextEpoch = begin + (Math.floor((step - begin) / stepsPerEpoch) + 1) * stepsPerEpoch;
  if (nextEpoch >= steps) return ranges;
  const firsts = new Set(ranges.now.map(({ first }) => first));
  const next = rangesOf(input, nextEpoch)?.now ?? [];
  return { now: ranges.now, next: next.filter(({ first }) => !firsts.has(first)) };
}

function rangesOf({ schedule, order, dataset, partsOf }: HeldInput, step: number) {
  const { epoch, first, count } = placesOf(schedule, step);
  const ranges = partsOf(count).flatMap((part) => {
    return order.rangesAt(epoch, first + part.first, part.count) ?? [];
  });
  const now = ranges.flatMap((range) => range.now);
  const next = ranges.flatMap((range) => range.next);
  if (now.length > 0) return { now, next, isEnd: ranges.every(({ isEnd }) => isEnd) };
  const pieces = piecesAt(dataset, first, count);
  return pieces && { ...pieces, isEnd: pieces.next.length === 0 };
}
