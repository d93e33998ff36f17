// Question: how close is each kernel, on one thread, to what the machine can do? Every figure is
// compared with its limit, measured in alternation in the same run: the best BLAS that is installed
// for products, a bare prefetching loop in C for rows.

import type { DensePrecision } from "../../src/kernels/contract/kernels.ts";
import { slicesOf } from "../../src/kernels/contract/slices.ts";
import { openKernels } from "../../src/kernels/index.ts";
import {
  type InstructionSet,
  instructionSets,
  limitIsa,
  resetIsa,
} from "../../src/kernels/native/native.ts";
import { type Bench, type Measurement, positiveOption, single } from "../bench.ts";
import { configuration, configurationNames } from "../configurations.ts";
import { bestBlas, limit, type Pass } from "../limits/limits.ts";
import { type BenchRow, fastest, rowOf } from "../row.ts";
import { blockMeasurements, filled } from "./blocks.bench.ts";
import { rowMeasurements } from "./rows.bench.ts";

const roundSeconds = 0.15;
const slices = 8;

interface KernelsBenchOptions {
  readonly batch: number;
  /** Gibibytes of the table that rows are read from. */
  readonly tableGib: number;
  /** Rounds of ours and of the limit, in turn. */
  readonly rounds: number;
}

export const kernelsBench: Bench<KernelsBenchOptions> = {
  question: "each kernel beside its limit, measured in the same run",
  options: [
    positiveOption("--batch <samples>", "samples of a batch", 2048),
    positiveOption("--table-gib <size>", "gibibytes of the table that rows are read from", 2),
    positiveOption("--rounds <count>", "rounds of ours and of the limit, in turn", 3),
  ],
  full: { rounds: 5 },
  measurements({ batch, tableGib, rounds }) {
    return [
      ...productMeasurements(batch, "float32", rounds),
      ...productMeasurements(batch, "bfloat16", rounds),
      ...interactionMeasurements(batch, rounds),
      ...setMeasurements(batch, rounds),
      ...blockMeasurements(batch, rounds),
      ...rowMeasurements(tableGib, rounds),
    ];
  },
};

type Shape = readonly [inputs: number, outputs: number];

const passes = ["forward", "dInput", "dWeight"] as const;
const shortNames = { float32: "f32", bfloat16: "bf16" } as const;

/**
 * Forward, input gradient and weight gradient of every layer of all configurations. The limit of
 * float32 is the best BLAS; bfloat16 is compared with our float32.
 */
function productMeasurements(
  batch: number,
  precision: DensePrecision,
  rounds: number,
): Measurement[] {
  // The limit: two BLAS libraries, each in its own process; or our float32 in this process.
  const seconds = rounds * (roundSeconds + (precision === "float32" ? 0.4 : roundSeconds));
  return layerShapes().flatMap(([layer, shape]) =>
    passes.flatMap((pass) => {
      const name = `gemm.${shortNames[precision]}.${layer}.${pass}`;
      const row = (rowName: string, limitOf: (product: Product) => Limit) => {
        return single(rowName, seconds, () => {
          const product = productOf(pass, batch, shape);
          const ours = () => product.run(precision);
          const work = { unit: "GFLOP/s", work: product.flop / 1e9, rounds };
          return measured({ name: rowName, ...work }, ours, () => limitOf(product));
        });
      };
      const own = row(name, (product) => productLimit(product, pass, precision));
      return layer === "square" ? [own, row(`${name}.peak`, () => peakOf(precision))] : [own];
    }),
  );
}

/** Inputs and outputs of each layer by name, and of a large square product. */
function layerShapes(): [string, Shape][] {
  const layers = configurationNames.flatMap((name) =>
    configuration(name).layers.map((shape, i): [string, Shape] => [`${name}.${i}`, shape]),
  );
  // A layer of one output is a vector product: bound by memory, and too small to matter.
  return [...layers.filter(([, [, outputs]]) => outputs > 1), ["square", [1024, 1024]]];
}

/** A product of one pass, with its own tensors. */
interface Product {
  readonly flop: number;
  /** C (m,n) over k. */
  readonly size: readonly [m: number, n: number, k: number];
  run(precision: DensePrecision): void;
}

function productOf(pass: Pass, batch: number, [inputs, outputs]: Shape): Product {
  const kernels = openKernels("native");
  const flop = 2 * batch * inputs * outputs;
  const x = filled(kernels, [batch, inputs]);
  const w = filled(kernels, [outputs, inputs]);
  const out = filled(kernels, [batch, outputs]);
  switch (pass) {
    case "forward": {
      const b = filled(kernels, [outputs]);
      const run = (p: DensePrecision) => kernels.linear(out, x, w, b, true, p);
      return { flop, size: [batch, outputs, inputs], run };
    }
    case "dInput": {
      const dX = kernels.tensor([batch, inputs]);
      const run = (p: DensePrecision) => kernels.dLinearInput(dX, out, w, p);
      return { flop, size: [batch, inputs, outputs], run };
    }
    case "dWeight": {
      const dW = kernels.tensor([outputs, inputs]);
      const dB = kernels.tensor([outputs]);
      const cut = slicesOf(0, slices, slices, batch);
      const run = (p: DensePrecision) => kernels.dLinearWeight([dW], [dB], out, x, cut, p);
      return { flop, size: [outputs, inputs, batch], run };
    }
    default:
      return pass satisfies never;
  }
}

interface Limit {
  readonly rate: number;
  readonly is: string;
}

function productLimit({ flop, size, run }: Product, pass: Pass, precision: DensePrecision): Limit {
  if (precision === "bfloat16") {
    const rate = fastest(flop / 1e9, roundSeconds, () => run("float32"));
    return { rate, is: "our float32, same shape" };
  }
  const { rate, name } = bestBlas(pass, ...size, roundSeconds);
  return { rate, is: `${name}, same shape` };
}

/** The limit of the arithmetic alone, without any memory traffic. */
function peakOf(precision: DensePrecision): Limit {
  return precision === "float32"
    ? { rate: limit("fma", roundSeconds), is: "multiply-adds from registers" }
    : { rate: limit("bf16", roundSeconds), is: "dot products of pairs from registers" };
}

function interactionMeasurements(batch: number, rounds: number): Measurement[] {
  const features = 27;
  const pairs = (features * (features - 1)) / 2;
  const seconds = rounds * (2 * roundSeconds + 0.05);
  return [16, 64].flatMap((dim) => {
    const gflop = (2 * batch * pairs * dim) / 1e9;
    const row = (pass: "forward" | "backward", work: number) => {
      const name = `interaction.f32.${dim}.${pass}`;
      return single(name, seconds, () => {
        const kernels = openKernels("native");
        const x = filled(kernels, [batch, features, dim]);
        const dX = kernels.tensor([batch, features, dim]);
        const out = filled(kernels, [batch, dim + pairs]);
        const forward = () => kernels.interact(out, x, 1, true);
        const backward = () => kernels.dInteract(dX, out, x, 1, true);
        const run = pass === "forward" ? forward : backward;
        return measured({ name, unit: "GFLOP/s", work, rounds }, run, () => peakOf("float32"));
      });
    };
    return [row("forward", gflop), row("backward", 2 * gflop)];
  });
}

/** The other instruction sets of this processor beside the fastest: the cost of a wrong choice. */
function setMeasurements(batch: number, rounds: number): Measurement[] {
  const [fastestSet = "portable", ...others] = instructionSets.filter((isa) => limitIsa(isa));
  resetIsa();
  const is = `${fastestSet}, same shape`;
  return others.flatMap((isa) =>
    (["float32", "bfloat16"] as const).map((precision) => {
      const name = `sets.${isa}.gemm.${shortNames[precision]}.415.512`;
      return single(name, rounds * 2 * roundSeconds, () => {
        const { flop, run } = productOf("forward", batch, [415, 512]);
        const on = (set: InstructionSet) => () => {
          limitIsa(set);
          run(precision);
        };
        const limitOf = () => {
          return { rate: fastest(flop / 1e9, roundSeconds, on(fastestSet)), is };
        };
        return measured({ name, unit: "GFLOP/s", work: flop / 1e9, rounds }, on(isa), limitOf);
      });
    }),
  );
}

/** Measures `run`, which does `work` units a call, in turn with the limit. */
function measured(
  { name, unit, work, rounds }: Pick<BenchRow, "name" | "unit"> & { work: number; rounds: number },
  run: () => void,
  limitOf: () => Limit,
): BenchRow {
  const ours: number[] = [];
  const limits: number[] = [];
  let limitIs = "";
  run();
  for (let round = 0; round < rounds; round++) {
    ours.push(fastest(work, roundSeconds, run));
    const { rate, is } = limitOf();
    limits.push(rate);
    limitIs = is;
  }
  return rowOf({ name, unit, limitIs }, ours, limits);
}
