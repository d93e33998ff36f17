// A single block, in float64, against central differences: its inputs and its parameters.

import type { ExecutionContext } from "ava";
import type { Kernels, Tensor } from "../../../src/kernels/contract/kernels.ts";
import { subtreesOf } from "../../../src/kernels/contract/slices.ts";
import { valuesOf } from "../../../src/kernels/reference/memory.ts";
import { createReference } from "../../../src/kernels/reference/reference.ts";
import { GraphBuilder, type Pass, type Value } from "../../../src/model/graph/graph.ts";
import {
  backwardLate,
  createNetwork,
  dLogitsOf,
  forwardLate,
  gradientsAt,
  logitsOf,
  vectorsOf,
} from "../../../src/model/graph/network.ts";
import { keyOf, purposes, RandomStream } from "../../../src/ports/random.ts";
import { gradientError, randomTensor, total, weighted } from "../batches/central-differences.ts";

const samples = 9;
/** Slices 2, 3 and 4 of eight: the subtrees {2,3} and {4} sum to the whole gradient. */
const slices = { first: 2, bounds: Int32Array.of(0, 3, 4, 9) };
const draw = { key: keyOf(7), step: 3, runs: [{ first: 0, count: samples, place: 18 }] };

/**
 * The count of ids of a sample at a sequence position: sample 0 has no id, sample b one at each of
 * its first b positions.
 */
function lengthAt(lookup: number, sample: number): number {
  return sample > lookup ? 1 : 0;
}

/**
 * Asserts that the blocks which `build` adds over inputs of these shapes have correct gradients.
 */
export function blockHasGradients<const Shapes extends readonly (readonly number[])[]>(
  t: ExecutionContext,
  shapes: Shapes,
  build: (graph: GraphBuilder, inputs: { readonly [I in keyof Shapes]: Value }) => Value,
  tolerance = 1e-8,
): void {
  const kernels: Kernels = createReference("float64");
  const stream = new RandomStream(5, purposes.faults);
  const builder = new GraphBuilder(0);
  const inputs = shapes.map((shape, lookup) => {
    const value = builder.add({ inputs: [], shape, hasLookups: true });
    builder.place(lookup, value, 0);
    return value;
  });
  const graph = builder.finish(build(builder, inputs as never));
  const flats = subtreesOf(2, 3).map(() => kernels.tensor([graph.layout.length]));
  const network = createNetwork({
    kernels,
    graph,
    precision: "float32",
    samplesMax: samples,
    flats,
  });
  const fill = (to: Tensor) => kernels.copy(to, randomTensor(kernels, stream, to.shape));
  fill(network.flat);
  for (const lookup of shapes.keys()) fill(vectorsOf(network, lookup, samples).of);
  const dOut = randomTensor(kernels, stream, [samples, ...graph.output.shape]);
  const batch = {
    samples,
    sum: (out: Tensor, parts: readonly Tensor[]) => void valuesOf(out).set(total(parts)),
  };
  const pass: Pass = { samples, slices, lengthAt, draw, batch };
  const loss = () => {
    void forwardLate(network, pass);
    return weighted(logitsOf(network, samples), dOut);
  };
  loss();
  kernels.copy(dLogitsOf(network, samples), dOut);
  void backwardLate(network, pass);
  const isGradient = (name: string, at: Tensor, gradient: ArrayLike<number>) => {
    const error = gradientError(at, gradient, loss);
    t.true(error <= tolerance, `${name} is off by ${error}`);
  };
  if (graph.layout.length > 0) isGradient("the parameters", network.flat, total(flats));
  for (const lookup of shapes.keys()) {
    const gradient = [...valuesOf(gradientsAt(network, lookup, samples).of)];
    isGradient(`input ${lookup}`, vectorsOf(network, lookup, samples).of, gradient);
  }
}
