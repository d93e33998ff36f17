// The sequence encoder against self-attention in plain loops.

import test from "ava";
import { valuesOf } from "../../src/kernels/reference/memory.ts";
import { createReference } from "../../src/kernels/reference/reference.ts";
import { encodeSequence } from "../../src/model/blocks/sequences/sequence-encoder.ts";
import { GraphBuilder, type Pass } from "../../src/model/graph/graph.ts";
import {
  createNetwork,
  forwardEarly,
  forwardLate,
  logitsOf,
  vectorsOf,
} from "../../src/model/graph/network.ts";
import { parameterIn } from "../../src/model/graph/parameters.ts";
import { purposes, RandomStream } from "../../src/ports/random.ts";
import { randomTensor } from "../helpers/batches/central-differences.ts";

const [samples, positions, dim] = [5, 4, 6];
const lengths = [0, 1, 2, 4, 3];

/** x (n,D) times the transpose of w (D,D). */
const times = (x: number[][], w: Float64Array | Float32Array) =>
  x.map((row) =>
    row.map((_, o) => row.reduce((sum, value, i) => sum + value * (w[o * dim + i] ?? 0), 0)),
  );

for (const heads of [1, 2, 3]) {
  test(`self-attention of ${heads} head(s) over the ids present, and their mean`, (t) => {
    const kernels = createReference("float64");
    const stream = new RandomStream(heads, purposes.faults);
    const builder = new GraphBuilder(0);
    const vectors = builder.add({ inputs: [], shape: [positions, dim], hasLookups: true });
    for (let position = 0; position < positions; position++) {
      builder.place(position, vectors, position * dim);
    }
    const encoder = { kind: "attention", heads } as const;
    const graph = builder.finish(encodeSequence(builder, { vectors, lookup: 0 }, "e", encoder));
    const network = createNetwork({
      ...{ kernels, graph, precision: "float32", samplesMax: samples, flats: [] },
    });
    kernels.copy(network.flat, randomTensor(kernels, stream, network.flat.shape));
    const x = valuesOf(vectorsOf(network, 0, samples).of);
    for (let sample = 0; sample < samples; sample++) {
      const used = (lengths[sample] ?? 0) * dim;
      for (let i = 0; i < positions * dim; i++) {
        x[sample * positions * dim + i] = i < used ? stream.normal() : 0;
      }
    }
    const pass: Pass = {
      samples,
      slices: { first: 0, bounds: Int32Array.of(0, samples) },
      lengthAt: (lookup, sample) => ((lengths[sample] ?? 0) > lookup ? 1 : 0),
      draw: undefined,
      batch: undefined,
    };
    void forwardEarly(network, kernels.tensor([samples, 0]), pass);
    void forwardLate(network, pass);
    const found = valuesOf(logitsOf(network, samples));
    const weight = (name: string) =>
      valuesOf(parameterIn(kernels, network.flat, graph.layout, `e.attention.${name}.weight`));
    for (const [sample, length] of lengths.entries()) {
      const rows = Array.from({ length }, (_, i) => {
        const from = (sample * positions + i) * dim;
        return [...x.subarray(from, from + dim)];
      });
      const [q, k, v] = ["query", "key", "value"].map((name) => times(rows, weight(name))) as [
        number[][],
        number[][],
        number[][],
      ];
      const wide = dim / heads;
      const expected = new Array<number>(dim).fill(0);
      for (let head = 0; head < heads; head++) {
        for (const query of q) {
          const of = (row: readonly number[]) => row.slice(head * wide, (head + 1) * wide);
          const scores = k.map((key) =>
            of(query).reduce((sum, value, c) => sum + value * (of(key)[c] ?? 0), 0),
          );
          const shares = scores.map((score) => Math.exp(score / Math.sqrt(wide)));
          const all = shares.reduce((sum, share) => sum + share, 0);
          for (const [i, share] of shares.entries()) {
            for (let c = head * wide; c < (head + 1) * wide; c++) {
              expected[c] = (expected[c] ?? 0) + ((share / all) * (v[i]?.[c] ?? 0)) / length;
            }
          }
        }
      }
      for (const [c, value] of expected.entries()) {
        const own = found[sample * dim + c] ?? Number.NaN;
        t.true(Math.abs(own - value) < 1e-6, `sample ${sample}, column ${c}: ${own}, not ${value}`);
      }
    }
  });
}
