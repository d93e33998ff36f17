// Which positions of a sequence have an id, as numbers that other blocks multiply or add. Positions
// behind the end of a sequence have vectors too: zeros, and after a layer with a bias no zeros.
//
// T = positions, B = samples.

import type { GraphBuilder, Memory, Pass, Value } from "../../graph/graph.ts";

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

/** (1,T): a number for each position of a sequence. */
export function sequenceMask(
  graph: GraphBuilder,
  { vectors, lookup }: Sequence,
  numbers: MaskNumbers,
): Value {
  const positions = vectors.shape[0] ?? 0;
  return graph.add({
    inputs: [],
    shape: [1, positions],
    elements: positions,
    start: (memory) => startMask(memory, { lookup, positions, numbers }),
  });
}

function startMask(
  memory: Memory,
  own: { readonly lookup: number; readonly positions: number; readonly numbers: MaskNumbers },
) {
  const { kernels, samplesMax } = memory;
  const { lookup, positions, numbers } = own;
  const all = new Float32Array(samplesMax * positions);
  return {
    forward({ samples, lengths }: Pass): void {
      for (let sample = 0; sample < samples; sample++) {
        for (let t = 0; t < positions; t++) {
          const has = (lengths[(lookup + t) * samples + sample] ?? 0) > 0;
          all[sample * positions + t] = has ? numbers.present : numbers.absent;
        }
      }
      kernels.write(memory.out(samples), all.subarray(0, samples * positions));
    },

    backward(): void {}, // Nothing that leads to it takes a gradient.
  };
}
