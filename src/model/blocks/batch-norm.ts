// Batch normalisation (Ioffe and Szegedy, arXiv 1502.03167), with ReLU and dropout behind it if
// asked. In training, mean and variance are those of the whole batch, whatever devices have its
// samples: sums in the order of the slice tree. They belong to the job, not to its placement.
// Elsewhere they are the running ones, which the checkpoint keeps.
//
// B = samples, C = columns.
//
// Invariants
//   N1. Running statistics change in the forward pass of a training step, equally on all devices.

import type { Tensor } from "../../kernels/contract/kernels.ts";
import type { GraphBuilder, Memory, Pass, Value, WholeBatch } from "../graph/graph.ts";
import { checkShapes } from "../graph/graph.ts";
import { type DropoutSite, drop } from "./dropout.ts";

/** As in PyTorch. */
const epsilon = 1e-5;
/** Share of a batch in the running statistics, as in PyTorch. */
const momentum = 0.1;

export interface BatchNormOptions {
  /**
   * Its parameters are `name.weight`, the gain, and `name.bias`; its statistics `name.running_mean`
   * and `name.running_var`; (C) each.
   */
  readonly name: string;
  /** @default false */
  readonly relu?: boolean;
  /** Probability that an output is dropped in training. @default 0 */
  readonly dropout?: number;
}

/** Each column of x (C) without its mean, in units of its deviation, times a gain, plus a bias. */
export function batchNorm(graph: GraphBuilder, x: Value, options: BatchNormOptions): Value {
  const { name, dropout = 0, relu = false } = options;
  const [width = 0] = x.shape;
  checkShapes(x.shape.length === 1, "a row is normalised over the batch", x);
  const site = dropout > 0 ? { rate: dropout, site: graph.dropoutSite() } : undefined;
  return graph.add({
    inputs: [x],
    shape: [width],
    parameters: [
      { name: `${name}.weight`, shape: [width], center: 1 },
      { name: `${name}.bias`, shape: [width] },
      { name: `${name}.running_mean`, shape: [width], isStatistic: true },
      { name: `${name}.running_var`, shape: [width], center: 1, isStatistic: true },
    ],
    elements: 3 * width,
    batchSums: 2 * width,
    start: (memory) => startBatchNorm(memory, { name, width, relu, site }),
  });
}

interface Own {
  readonly name: string;
  readonly width: number;
  readonly relu: boolean;
  readonly site: DropoutSite | undefined;
}

function startBatchNorm(memory: Memory, own: Own) {
  const { kernels } = memory;
  const { name, width, relu, site } = own;
  const [gain, bias] = [memory.parameter(`${name}.weight`), memory.parameter(`${name}.bias`)];
  const [dGain, dBias] = [memory.gradients(`${name}.weight`), memory.gradients(`${name}.bias`)];
  const running = {
    mean: memory.parameter(`${name}.running_mean`),
    variance: memory.parameter(`${name}.running_var`),
  };
  const columns = { mean: kernels.tensor([width]), unit: kernels.tensor([width]), gain, bias };
  const parts = dGain.map(() => kernels.tensor([2, width]));
  const sums = kernels.tensor([2, width]);
  const half = (of: Tensor, i: number) => kernels.reshape(of, [width], i * width);
  const normalise = (pass: Pass) => {
    kernels.batchNorm(memory.out(pass.samples), memory.x(0, pass.samples), columns, relu);
    drop(memory, site, pass, memory.out(pass.samples));
  };
  return {
    forward(pass: Pass): Promise<void> | undefined {
      const { batch, samples, slices } = pass;
      if (batch === undefined) {
        kernels.batchStatistics(columns, running.mean, running.variance, epsilon);
        normalise(pass);
        return undefined;
      }
      // Around the running mean, near which numbers lose fewer bits.
      kernels.batchMoments(parts, memory.x(0, samples), running.mean, slices);
      return whenSummed(batch, sums, parts, () => {
        const count = batch.samples;
        kernels.wholeBatchStatistics(columns, running, sums, { count, momentum, epsilon }); // N1
        normalise(pass);
      });
    },

    backward(pass: Pass): Promise<void> | undefined {
      const { batch, samples, slices } = pass;
      if (batch === undefined) throw new RangeError("Only a training step goes backward");
      const [x, dOut] = [memory.x(0, samples), memory.dOut(samples)];
      drop(memory, site, pass, dOut);
      if (relu) kernels.dRelu(dOut, memory.out(samples));
      kernels.dBatchNormWeights(dGain, dBias, dOut, x, columns, slices);
      for (const [i, part] of parts.entries()) {
        const [slope, mean] = [dGain[i], dBias[i]];
        if (slope === undefined || mean === undefined) continue;
        kernels.copy(half(part, 0), mean);
        kernels.copy(half(part, 1), slope);
      }
      return whenSummed(batch, sums, parts, () => {
        const dX = memory.dX(0, samples);
        if (dX === undefined) return;
        kernels.divide(sums, batch.samples);
        kernels.dBatchNorm(dX, dOut, x, columns, half(sums, 0), half(sums, 1));
      });
    },
  };
}

/** Runs `then` when the batch has summed, at once where nobody is waited for. */
function whenSummed(
  batch: WholeBatch,
  out: Tensor,
  parts: readonly Tensor[],
  then: () => void,
): Promise<void> | undefined {
  const waiting = batch.sum(out, parts);
  if (waiting !== undefined) return waiting.then(then);
  then();
  return undefined;
}
