// Which positions of a sequence have an id, as numbers that other blocks multiply or add. Positions
// behind the end of a sequence have vectors too: zeros, and after a layer with a bias no zeros.
//
// T = positions, B = samples.

import {
  type GraphBuilder,
  type Memory,
  type Pass,
  sizeOf,
  type Value,
} from "../../graph/graph.ts";

/** A sequence of a graph: its positions are lookups behind each other. */
export interface Sequence {
  /** (T,D), zeros behind the end. */
  readonly vectors: Value;
  /** The lookup of its first position. */
  readonly lookup: number;
}

/** What a mask says of a position. */
export interface MaskNumbers {
  readonly present: number;
  readonly absent: number;
}

/** 1 and 0: a factor. */
export const factors: MaskNumbers = { present: 1, absent: 0 };
/** 0 and -1e9: added to scores before a softmax, which makes a plain 0 of the latter. */
export const penalties: MaskNumbers = { present: 0, absent: -1e9 };

/**
 * (1,T): a number for each position of a sequence. With `leading` (1, leading + T): as many
 * positions before it are always present.
 */
export function sequenceMask(
  graph: GraphBuilder,
  { vectors, lookup }: Sequence,
  numbers: MaskNumbers,
  leading = 0,
): Value {
  const positions = vectors.shape[0] ?? 0;
  return numbersOf(graph, [1, leading + positions], (out, lengthAt) => {
    out.fill(numbers.present, 0, leading);
    for (let t = 0; t < positions; t++) {
      out[leading + t] = lengthAt(lookup + t) > 0 ? numbers.present : numbers.absent;
    }
  });
}

/**
 * (1 + T, 1 + T): for the target and each position of its sequence, a one in the column that says
 * how far behind the target it stands: 0 for the target itself, 1 for the last id. A position
 * without an id has zeros.
 */
export function recencies(graph: GraphBuilder, { vectors, lookup }: Sequence): Value {
  const positions = vectors.shape[0] ?? 0;
  const all = positions + 1;
  return numbersOf(graph, [all, all], (out, lengthAt) => {
    out.fill(0);
    out[0] = 1;
    let ids = 0;
    while (ids < positions && lengthAt(lookup + ids) > 0) ids++;
    for (let t = 0; t < ids; t++) out[(t + 1) * all + ids - t] = 1;
  });
}

/** A value that `fill` writes for each sample, from the lengths of its lookups. */
function numbersOf(
  graph: GraphBuilder,
  shape: readonly number[],
  fill: (out: Float32Array, lengthAt: (lookup: number) => number) => void,
): Value {
  const size = sizeOf({ shape });
  return graph.add({
    inputs: [],
    shape,
    elements: size,
    start: (memory) => startNumbers(memory, size, fill),
  });
}

function startNumbers(memory: Memory, size: number, fill: Parameters<typeof numbersOf>[2]) {
  const { kernels, samplesMax } = memory;
  const all = new Float32Array(samplesMax * size);
  return {
    forward({ samples, lengths }: Pass): void {
      for (let sample = 0; sample < samples; sample++) {
        const own = all.subarray(sample * size, (sample + 1) * size);
        fill(own, (lookup) => lengths[lookup * samples + sample] ?? 0);
      }
      kernels.write(memory.out(samples), all.subarray(0, samples * size));
    },

    backward(): void {}, // Nothing that leads to it takes a gradient.
  };
}
