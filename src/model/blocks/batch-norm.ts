// Batch normalisation (Ioffe and Szegedy, arXiv 1502.03167), optionally followed by ReLU and
// dropout. In training, mean and variance are taken over the whole batch across all devices, and
// summed in the order of the slice tree, so that they do not depend on the placement. Outside of
// training, the running statistics apply, which checkpoints contain. Dice (dice.ts) shares this
// code.
//
// B = samples, L = rows of a sample, C = columns.
//
// Invariants
//   N1. Running statistics change in the forward pass of a training step, equally on all devices.

import type { BatchNormColumns, Tensor } from "../../kernels/contract/kernels.ts";
import type { Slices } from "../../kernels/contract/slices.ts";
import type { GraphBuilder, Memory, Pass, Value, WholeBatch } from "../graph/graph.ts";
import { checkShapes } from "../graph/graph.ts";
import type { ParameterSpec } from "../graph/parameters.ts";
import { type DropoutSite, drop } from "./dropout.ts";

/** As in PyTorch. */
export const epsilon = 1e-5;
/** Weight of a new batch in the running statistics, as in PyTorch. */
const momentum = 0.1;

export interface BatchNormOptions {
  /**
   * Prefix of the parameters `name.weight` (gain) and `name.bias`, and of the statistics
   * `name.running_mean` and `name.running_var`, each of shape (C).
   */
  readonly name: string;
  /** @default false */
  readonly relu?: boolean;
  /** Probability that an output is dropped in training. @default 0 */
  readonly dropout?: number;
}

/**
 * Normalises each column of x (C) to mean 0 and deviation 1, then applies gain and bias. Returns
 * (C).
 */
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
      ...statisticsOf(name, width),
    ],
    elements: 3 * width,
    batchSums: 2 * width,
    translate: (to) => {
      const parts = ["weight", "bias", "running_mean", "running_var"];
      const inputs = [to.x(0), ...parts.map((part) => to.parameter(`${name}.${part}`))];
      const out = to.op("BatchNormalization", inputs, { epsilon: { float: epsilon } });
      return relu ? to.op("Relu", [out]) : out;
    },
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
  const statistics = startStatistics(memory, {
    ...{ name, width, rows: 1, gain, bias },
    subtrees: dGain.length,
  });
  return {
    forward(pass: Pass): Promise<void> | undefined {
      const x = memory.x(0, pass.samples);
      return statistics.forward(pass, x, (columns) => {
        kernels.batchNorm(memory.out(pass.samples), x, columns, relu);
        drop(memory, site, pass, memory.out(pass.samples));
      });
    },

    backward(pass: Pass): Promise<void> | undefined {
      const { samples, slices } = pass;
      const [x, dOut] = [memory.x(0, samples), memory.dOut(samples)];
      drop(memory, site, pass, dOut);
      if (relu) kernels.dRelu(dOut, memory.out(samples));
      kernels.dBatchNormWeights(dGain, dBias, dOut, x, statistics.columns, slices);
      return statistics.backward(pass, { dGain, dBias }, (own) => {
        const dX = memory.dX(0, samples);
        if (dX === undefined) return;
        kernels.dBatchNorm(dX, dOut, x, statistics.columns, own.mean, own.slope);
      });
    },
  };
}

/** The running statistics of `width` columns, as parameters that take no gradient. */
export function statisticsOf(name: string, width: number): ParameterSpec[] {
  return [
    { name: `${name}.running_mean`, shape: [width], isStatistic: true },
    { name: `${name}.running_var`, shape: [width], center: 1, isStatistic: true },
  ];
}

/** Gradients that `dBatchNormWeights` writes: a tensor for each finished subtree of this device. */
interface WeightGradients {
  readonly dGain: readonly Tensor[];
  readonly dBias: readonly Tensor[];
}

/** Statistics of `width` columns: over the whole batch in training, else the running ones. */
export function startStatistics(
  memory: Memory,
  own: {
    readonly name: string;
    readonly width: number;
    /** Rows of a sample. */
    readonly rows: number;
    readonly gain: Tensor;
    readonly bias: Tensor;
    /** Finished subtrees of the slice tree on this device. */
    readonly subtrees: number;
  },
) {
  const { kernels } = memory;
  const { name, width, rows, gain, bias } = own;
  const running = {
    mean: memory.parameter(`${name}.running_mean`),
    variance: memory.parameter(`${name}.running_var`),
  };
  const columns: BatchNormColumns = {
    ...{ mean: kernels.tensor([width]), unit: kernels.tensor([width]), gain, bias },
  };
  const parts = Array.from({ length: own.subtrees }, () => kernels.tensor([2, width]));
  const sums = kernels.tensor([2, width]);
  const half = (of: Tensor, i: number) => kernels.reshape(of, [width], i * width);
  return {
    columns,

    /** Fills `columns` from x (B L, C), then runs `use`. */
    forward(
      { batch, slices }: Pass,
      x: Tensor,
      use: (columns: BatchNormColumns) => void,
    ): Promise<void> | undefined {
      if (batch === undefined) {
        kernels.batchStatistics(columns, running.mean, running.variance, epsilon);
        use(columns);
        return undefined;
      }
      // Moments around the running mean lose fewer bits than moments around 0.
      kernels.batchMoments(parts, x, running.mean, rowsOf(slices, rows));
      return whenSummed(batch, sums, parts, () => {
        const count = rows * batch.samples;
        kernels.wholeBatchStatistics(columns, running, sums, { count, momentum, epsilon }); // N1
        use(columns);
      });
    },

    /** Sums the gradients over the whole batch, then runs `use` with their means per row. */
    backward(
      { batch }: Pass,
      { dGain, dBias }: WeightGradients,
      use: (own: { readonly mean: Tensor; readonly slope: Tensor }) => void,
    ): Promise<void> | undefined {
      if (batch === undefined) throw new RangeError("Only a training step goes backward");
      for (const [i, part] of parts.entries()) {
        const [slope, mean] = [dGain[i], dBias[i]];
        if (slope === undefined || mean === undefined) continue;
        kernels.copy(half(part, 0), mean);
        kernels.copy(half(part, 1), slope);
      }
      return whenSummed(batch, sums, parts, () => {
        kernels.divide(sums, rows * batch.samples);
        use({ mean: half(sums, 0), slope: half(sums, 1) });
      });
    },
  };
}

/** Slices over rows, from slices over samples of `rows` rows each. */
export function rowsOf(slices: Slices, rows: number): Slices {
  return rows === 1 ? slices : { ...slices, bounds: slices.bounds.map((sample) => rows * sample) };
}

/**
 * Runs `then` once `out` holds the sum over the batch; synchronously if the sum needs no other
 * device.
 */
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
