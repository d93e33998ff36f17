// The axes of a step: a lookup has one bag and one vector for each row of its axis. The rows of
// axis 0 are the samples; the rows of the axis of a group of deduplicated features are the group's
// distinct lists (IKJT: src/data/sessions/ikjt.ts). Bags of distinct lists lie at the first places
// of their slices; their vectors are sent, and enter the model, without gaps.
//
// b = samples of this device, U = rows of an axis.

import {
  type AxisRows,
  distinctIn,
  groupAxis,
  type IkjtGroups,
  samplesAxis,
} from "../../data/sessions/ikjt.ts";
import type { SampleRows } from "../../embedding/lookup/sample-rows.ts";
import type { LocalBatch } from "../../exchange/batch-ring.ts";
import type { Kernels, Tensor } from "../../kernels/contract/kernels.ts";
import type { Slices } from "../../kernels/contract/slices.ts";
import type { DrawRun, GroupPass, Pass } from "../../model/graph/graph.ts";

/** The axes of a device: its samples, then the distinct lists of each group. */
export type Axes = readonly AxisRows[];

/** Returns the axes of a batch on its own device. `bounds` are those of the device's slices. */
export function axesOfBatch(
  { samples, inverse }: Pick<LocalBatch, "samples" | "inverse">,
  groups: IkjtGroups,
  bounds: Int32Array,
): Axes {
  const own = groups.map((_, group) => {
    if (inverse === undefined) throw new RangeError("The batch has no distinct lists");
    return groupAxis(bounds, distinctIn(inverseOf(inverse, group, samples), bounds));
  });
  return [samplesAxis(samples), ...own];
}

function inverseOf(inverse: Int32Array, group: number, samples: number): Int32Array {
  return inverse.subarray(group * samples, (group + 1) * samples);
}

/** The part of a step that the passes over the model's blocks need. */
interface PassPlan {
  readonly axes: Axes;
  readonly mine: Slices;
  readonly firstSample: number;
  readonly pass: Omit<Pass, "lengthAt" | "groups">;
}

/** Returns the pass of the model over the samples of this device, and over its distinct lists. */
export function passOf(
  { axes, mine, firstSample, pass }: PassPlan,
  { samples, inverse = new Int32Array(0) }: Pick<LocalBatch, "samples" | "inverse">,
  { lengths }: Pick<SampleRows, "lengths">,
  lookupAxes: readonly number[],
): Pass {
  const groups = axes.slice(1).map((own, group): GroupPass => {
    const places = placesOf(own);
    const { runs } = own;
    return {
      samples: own.rows,
      slices: { ...mine, bounds: Int32Array.from(endsOf(own)) },
      inverse: inverseOf(inverse, group, samples),
      lengthAt: (lookup, row) => lengths[lookup * samples + (places[row] ?? 0)] ?? 0,
      draw: pass.draw && { ...pass.draw, runs: drawRunsOf(runs, firstSample) },
      batch: undefined,
    };
  });
  return {
    ...pass,
    groups,
    lengthAt(lookup, row) {
      const group = groups[(lookupAxes[lookup] ?? 0) - 1];
      if (group === undefined) return lengths[lookup * samples + row] ?? 0;
      return group.lengthAt(lookup, group.inverse[row] ?? 0);
    },
  };
}

/** (U): the place of each row's bag among the samples. */
function placesOf({ rows, runs }: AxisRows): Int32Array {
  const places = new Int32Array(rows);
  let row = 0;
  for (const { first, count } of runs) {
    for (let i = 0; i < count; i++) places[row++] = first + i;
  }
  return places;
}

/** Number of rows before each run, and after the last. */
function endsOf({ runs }: AxisRows): number[] {
  let end = 0;
  return [0, ...runs.map(({ count }) => (end += count))];
}

/** A distinct list draws its random numbers by the place of its bag in the batch. */
function drawRunsOf(runs: AxisRows["runs"], firstSample: number): DrawRun[] {
  const ends = endsOf({ rows: 0, runs });
  return runs.map(({ first, count }, i) => {
    return { first: ends[i] ?? 0, count, place: firstSample + first };
  });
}

/** out (U): gathers the values (b) at the places of an axis' rows. */
export function atPlaces(values: Int32Array, { rows, runs }: AxisRows): Int32Array {
  if (rows === values.length) return values;
  const out = new Int32Array(rows);
  let row = 0;
  for (const { first, count } of runs) {
    out.set(values.subarray(first, first + count), row);
    row += count;
  }
  return out;
}

/**
 * Moves columns of an axis' rows from their places among the samples to the first rows of t (b,·).
 */
export function closeGaps(
  kernels: Kernels,
  t: Tensor,
  column: number,
  columns: number,
  { runs }: AxisRows,
): void {
  let row = 0;
  for (const { first, count } of runs) {
    if (row !== first) {
      const [to, from] = [kernels.part(t, row, count), kernels.part(t, first, count)];
      kernels.copyColumns(to, column, from, column, columns);
    }
    row += count;
  }
}

/** Copies columns of all rows, from (U,·), to their places among the samples, out (b,·). */
export function copyToPlaces(
  kernels: Kernels,
  out: Tensor,
  column: number,
  from: Tensor,
  fromColumn: number,
  columns: number,
  { runs }: AxisRows,
): void {
  let row = 0;
  for (const { first, count } of runs) {
    const [to, own] = [kernels.part(out, first, count), kernels.part(from, row, count)];
    kernels.copyColumns(to, column, own, fromColumn, columns);
    row += count;
  }
}
