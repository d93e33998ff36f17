// Replays of blocks: every architecture trains some passes on other data, masks, lengths and sizes,
// once with blocks that repeat recorded calls and once with blocks that run themselves.

import test from "ava";
import type { Kernels, Tensor } from "../../src/kernels/contract/kernels.ts";
import { slicesOf } from "../../src/kernels/contract/slices.ts";
import { openKernels } from "../../src/kernels/index.ts";
import { valuesOf } from "../../src/kernels/reference/memory.ts";
import type { Pass } from "../../src/model/graph/graph.ts";
import {
  backwardEarly,
  backwardLate,
  createNetwork,
  dLogitsOf,
  forwardEarly,
  forwardLate,
  logitsOf,
  vectorsOf,
} from "../../src/model/graph/network.ts";
import { graphOf } from "../../src/model/model.ts";
import { type ModelOptions, modelOptions } from "../../src/model/options.ts";
import { keyOf, purposes, RandomStream } from "../../src/ports/random.ts";
import { randomTensor, total } from "../helpers/batches/central-differences.ts";
import { zoo } from "../helpers/models/zoo.ts";

const samplesMax = 6;

for (const [title, options] of Object.entries(zoo)) {
  test(`a pass that repeats the calls of an earlier pass gives its bits: ${title}`, (t) => {
    const checked = openKernels("reference");
    let repeats = 0;
    const counting: Kernels["recorded"] = (work) => {
      const repeat = checked.recorded(work);
      if (repeat === undefined) return undefined;
      return () => {
        repeats++;
        repeat();
      };
    };
    const repeating = trained({ ...checked, recorded: counting }, options);
    const running = trained({ ...checked, recorded: alone }, options);
    t.deepEqual(repeating, running);
    t.true(repeats > 0);
  });
}

/** Records nothing. */
const alone: Kernels["recorded"] = (work) => {
  work();
  return undefined;
};

/** Logits and gradients of some passes; weights are random, and new after each pass. */
function trained(kernels: Kernels, options: ModelOptions): number[][] {
  const stream = new RandomStream(5, purposes.faults);
  const spec = modelOptions.parse(options);
  const graph = graphOf(spec);
  const flats = [kernels.tensor([graph.layout.length])];
  const { precision } = spec;
  const network = createNetwork({ kernels, graph, precision, samplesMax, flats });
  const random = (t: Tensor) => kernels.copy(t, randomTensor(kernels, stream, t.shape));
  random(network.flat);
  return [6, 6, 4, 4, 6].flatMap((samples, step) => {
    const lengths = Int32Array.from({ length: samples * graph.places.length }, () => {
      return stream.below(2);
    });
    const pass: Pass = {
      samples,
      slices: slicesOf(0, 4, 4, samples),
      lengthAt: (lookup, row) => lengths[lookup * samples + row] ?? 0,
      draw: { key: keyOf(3), step, runs: [{ first: 0, count: samples, place: 0 }] },
      batch: { samples, sum: (out, parts) => void valuesOf(out).set(total(parts)) },
    };
    for (const lookup of graph.places.keys()) random(vectorsOf(network, lookup, samples).of);
    void forwardEarly(network, randomTensor(kernels, stream, [samples, spec.dense]), pass);
    void forwardLate(network, pass);
    random(dLogitsOf(network, samples));
    void backwardLate(network, pass);
    void backwardEarly(network, pass);
    random(network.flat);
    return [logitsOf(network, samples), ...flats].map((of) => [...kernels.read(of)]);
  });
}
