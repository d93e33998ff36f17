// Masks of the positions that have an id, as numbers that other blocks multiply or add. Padding
// positions have vectors too: zeros at first, but not after a layer with a bias.
//
// T = positions, B = samples.

import {
  type GraphBuilder,
  type Memory,
  type Pass,
  sizeOf,
  type Value,
} from "../../graph/graph.ts";
import type { Name, Translate, Translation } from "../../graph/translation.ts";

/** A sequence feature of a graph, with one lookup for each position, numbered consecutively. */
export interface Sequence {
  /** (T,D): zeros in padding positions. */
  readonly vectors: Value;
  /** The number of the first position's lookup. */
  readonly lookup: number;
}

/** The mask's value for a position with an id and for a padding position. */
export interface MaskNumbers {
  readonly present: number;
  readonly absent: number;
}

/** A multiplicative mask: 1 and 0. */
export const factors: MaskNumbers = { present: 1, absent: 0 };
/** An additive mask: 0 and -1e9, added to scores before a softmax, where exp(-1e9) is exactly 0. */
export const penalties: MaskNumbers = { present: 0, absent: -1e9 };

/**
 * The mask of a sequence, (1,T). With `leading`: (1, leading + T), where the first `leading`
 * positions count as present.
 */
export function sequenceMask(
  graph: GraphBuilder,
  { vectors, lookup }: Sequence,
  numbers: MaskNumbers,
  leading = 0,
): Value {
  const positions = vectors.shape[0] ?? 0;
  return numbersOf(
    graph,
    { vectors, lookup },
    [1, leading + positions],
    (out, lengthOf) => {
      out.fill(numbers.present, 0, leading);
      for (let t = 0; t < positions; t++) {
        out[leading + t] = lengthOf(lookup + t) > 0 ? numbers.present : numbers.absent;
      }
    },
    (to) => {
      // Position t (from 0) has an id if t - leading < ids.
      const places = Array.from({ length: leading + positions }, (_, t) => t - leading);
      const at = to.integers(places, [1, 1, places.length]);
      const isPresent = to.op("Less", [at, idsOf(to, lookup)]);
      const [present, absent] = [numbers.present, numbers.absent].map((own) =>
        to.numbers([1], [own]),
      );
      return to.op("Where", [isPresent, present ?? "", absent ?? ""]);
    },
  );
}

/**
 * One-hot recency of each position, (T,T): row t has a 1 in the column of its distance from the
 * last id; a padding position has a row of zeros. With a `leading` target, (1+T, 1+T): the target
 * has distance 0, the last id 1.
 */
export function recencies(
  graph: GraphBuilder,
  { vectors, lookup }: Sequence,
  leading: 0 | 1,
): Value {
  const positions = vectors.shape[0] ?? 0;
  const all = positions + leading;
  return numbersOf(
    graph,
    { vectors, lookup },
    [all, all],
    (out, lengthOf) => {
      out.fill(0);
      if (leading === 1) out[0] = 1;
      let ids = 0;
      while (ids < positions && lengthOf(lookup + ids) > 0) ids++;
      for (let t = 0; t < ids; t++) out[(t + leading) * all + ids - 1 - t + leading] = 1;
    },
    (to) => {
      // With a target, row r >= 1 has its 1 in column c >= 1 where r + c = ids + 1, and row 0 in
      // column 0. Without a target, row r has its 1 in the column where r + c = ids - 1.
      const cells = Array.from({ length: all * all }, (_, i) => [Math.floor(i / all), i % all]);
      const sums = cells.map(([r = 0, c = 0]) => (r >= leading && c >= leading ? r + c : -1));
      const grid = (values: readonly number[]) => to.integers(values, [1, all, all]);
      const behind = to.op("Add", [idsOf(to, lookup), to.integers([2 * leading - 1])]);
      const isOne = to.op("Equal", [grid(sums), behind]);
      if (leading === 0) return to.op("Cast", [isOne], { to: onnxFloat });
      const isFirst = to.op("Equal", [grid(cells.map((_, i) => i)), to.integers([0])]);
      return to.op("Cast", [to.op("Or", [isOne, isFirst])], { to: onnxFloat });
    },
  );
}

/** The code of float32 in ONNX's `TensorProto.DataType`. */
const onnxFloat = 1;

/** The number of ids of each sample's sequence, at most T. Returns (B,1,1). */
function idsOf(to: Translation, lookup: number): Name {
  return to.op("Reshape", [to.idsOf(lookup), to.integers([-1, 1, 1])]);
}

/** A value that `fill` writes for each row of an axis, from the lengths of the row's lookups. */
function numbersOf(
  graph: GraphBuilder,
  { vectors: { axis }, lookup }: Sequence,
  shape: readonly number[],
  fill: (out: Float32Array, lengthOf: (lookup: number) => number) => void,
  translate: Translate,
): Value {
  const size = sizeOf({ shape });
  return graph.add({
    inputs: [],
    lengthsOf: lookup,
    axis,
    shape,
    elements: size,
    translate,
    start: (memory) => startNumbers(memory, size, fill),
  });
}

function startNumbers(memory: Memory, size: number, fill: Parameters<typeof numbersOf>[3]) {
  const { kernels, samplesMax } = memory;
  const all = new Float32Array(samplesMax * size);
  return {
    forward({ samples, lengthAt }: Pass): void {
      for (let sample = 0; sample < samples; sample++) {
        const own = all.subarray(sample * size, (sample + 1) * size);
        fill(own, (lookup) => lengthAt(lookup, sample));
      }
      kernels.write(memory.out(samples), all.subarray(0, samples * size));
    },

    backward(): void {}, // The mask has no trained input.
  };
}
