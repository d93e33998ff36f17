// Dice, the activation of Deep Interest Networks (Zhou et al., arXiv 1706.06978, section 5.3): a
// ReLU with a smooth corner that adapts to the distribution of each column.
//
//   p = sigmoid(x normalised by the batch's mean and deviation)
//   out = p x + (1 - p) alpha x; computed as x g with g = alpha + p (1 - alpha)
//
// B = samples, L = rows of a sample, C = columns.

import type { BatchNormColumns, Tensor } from "../../kernels/contract/kernels.ts";
import type { GraphBuilder, Memory, Pass, Value } from "../graph/graph.ts";
import { sizeOf } from "../graph/graph.ts";
import type { Name, Translation } from "../graph/translation.ts";
import { epsilon, rowsOf, startStatistics, statisticsOf } from "./batch-norm.ts";
import { type DropoutSite, drop } from "./dropout.ts";

export interface DiceOptions {
  /**
   * Prefix of the parameter `name.alpha`, initially 0, and of the statistics `name.running_mean`
   * and `name.running_var`, each of shape (C).
   */
  readonly name: string;
  /** Probability that an output is dropped in training. @default 0 */
  readonly dropout?: number;
}

/**
 * Dice of each column of x (…,C), with statistics over all samples and their rows. Returns (…,C).
 */
export function dice(graph: GraphBuilder, x: Value, options: DiceOptions): Value {
  const { name, dropout = 0 } = options;
  const width = x.shape.at(-1) ?? 0;
  const rows = sizeOf(x) / Math.max(1, width);
  const site = dropout > 0 ? { rate: dropout, site: graph.dropoutSite() } : undefined;
  return graph.add({
    inputs: [x],
    shape: x.shape,
    parameters: [{ name: `${name}.alpha`, shape: [width] }, ...statisticsOf(name, width)],
    elements: 6 * sizeOf(x),
    batchSums: 2 * width,
    translate: (to) => translateDice(to, name),
    start: (memory) => startDice(memory, { name, width, rows, site }),
  });
}

function translateDice(to: Translation, name: string): Name {
  const own = (part: string) => to.parameter(`${name}.${part}`);
  const variance = to.op("Add", [own("running_var"), to.numbers([1], [epsilon])]);
  const centred = to.op("Sub", [to.x(0), own("running_mean")]);
  const p = to.op("Sigmoid", [to.op("Div", [centred, to.op("Sqrt", [variance])])]);
  const rest = to.op("Sub", [to.numbers([1], [1]), own("alpha")]);
  const gate = to.op("Add", [to.op("Mul", [p, rest]), own("alpha")]);
  return to.op("Mul", [to.x(0), gate]);
}

interface Own {
  readonly name: string;
  readonly width: number;
  readonly rows: number;
  readonly site: DropoutSite | undefined;
}

function startDice(memory: Memory, { name, width, rows, site }: Own) {
  const { kernels, samplesMax } = memory;
  const constant = (value: number) => {
    const tensor = kernels.tensor([width]);
    kernels.fill(tensor, value);
    return tensor;
  };
  const [zeros, ones, minusOnes] = [constant(0), constant(1), constant(-1)];
  const [alpha, dAlpha] = [memory.parameter(`${name}.alpha`), memory.gradients(`${name}.alpha`)];
  const rest = kernels.tensor([width]); // 1 - alpha
  const own = { name, width, rows, gain: ones, bias: zeros, subtrees: dAlpha.length };
  const statistics = startStatistics(memory, own);
  const sums = () => dAlpha.map(() => kernels.tensor([width]));
  const [unread, dGain, dBias] = [sums(), sums(), sums()];
  const whole = () => kernels.tensor([samplesMax * rows, width]);
  const [shares, gates, scratch] = [whole(), whole(), whole()];
  const flat = (tensor: Tensor, samples: number) =>
    kernels.reshape(tensor, [samples * rows, width]);
  const part = (tensor: Tensor, samples: number) => kernels.part(tensor, 0, samples * rows);
  // x * unit + bias, column by column.
  const byColumn = (unit: Tensor, bias: Tensor): BatchNormColumns => {
    return { mean: zeros, unit, gain: ones, bias };
  };
  return {
    forward(pass: Pass): Promise<void> | undefined {
      const { samples } = pass;
      const x = flat(memory.x(0, samples), samples);
      const [p, g] = [part(shares, samples), part(gates, samples)];
      kernels.scale(rest, alpha, -1);
      kernels.add(rest, rest, ones);
      return statistics.forward(pass, x, (columns) => {
        kernels.batchNorm(p, x, columns, false);
        kernels.sigmoid(p, p);
        kernels.batchNorm(g, p, byColumn(rest, alpha), false);
        kernels.multiply(flat(memory.out(samples), samples), x, g);
        drop(memory, site, pass, memory.out(samples));
      });
    },

    backward(pass: Pass): Promise<void> | undefined {
      const { samples } = pass;
      drop(memory, site, pass, memory.dOut(samples));
      const slices = rowsOf(pass.slices, rows);
      const x = flat(memory.x(0, samples), samples);
      const dOut = flat(memory.dOut(samples), samples);
      const [p, g, d] = [part(shares, samples), part(gates, samples), part(scratch, samples)];
      kernels.multiply(d, dOut, x);
      // Sums d (1 - p): the kernel sums d (p - mean) unit, with mean 1 and unit -1.
      const around = { mean: ones, unit: minusOnes, gain: ones, bias: zeros };
      kernels.dBatchNormWeights(dAlpha, unread, d, p, around, slices);
      kernels.batchNorm(d, d, byColumn(rest, zeros), false);
      kernels.dSigmoid(d, p);
      kernels.dBatchNormWeights(dGain, dBias, d, x, statistics.columns, slices);
      return statistics.backward(pass, { dGain, dBias }, ({ mean, slope }) => {
        const to = memory.dX(0, samples);
        if (to === undefined) return;
        const dX = flat(to, samples);
        kernels.dBatchNorm(dX, d, x, statistics.columns, mean, slope);
        kernels.multiply(g, dOut, g);
        kernels.add(dX, dX, g);
      });
    },
  };
}
