// Question: how close are the kernels of blocks (normalisations, products of each sample's
// matrices, element-wise operations) to what the machine can do, on one thread? Shapes are those of
// the first layer of configuration w (Wukong), and of the cross layers of d (DLRM-DCNv2). Limit: of
// kernels bound by memory, a bare copy of as many bytes as they read and write; of products,
// multiply-adds from registers.

import type { Kernels } from "../../src/kernels/contract/kernels.ts";
import { slicesOf } from "../../src/kernels/contract/slices.ts";
import type { Tensor } from "../../src/kernels/contract/tensor.ts";
import { openKernels } from "../../src/kernels/index.ts";
import { type Measurement, single } from "../bench.ts";
import { limit } from "../limits/limits.ts";
import { type BenchRow, fastest, rowOf } from "../row.ts";

const roundSeconds = 0.15;
const slices = 8;

/** Wukong of w: vectors of a sample, their columns, and vectors that the first layer outputs. */
const [vectors, dim, rank] = [27, 64, 24];
/** Width of the cross layers of d. */
const crossWidth = vectors * dim;

/** A kernel with its own tensors. */
interface Run {
  /** Bytes moved, or floating-point operations, of one call. */
  readonly work: { readonly bytes: number } | { readonly flop: number };
  call(): void;
}

/** Rows of all kernels of blocks. `batch`: samples. */
export function blockMeasurements(batch: number, rounds: number): Measurement[] {
  const seconds = rounds * (2 * roundSeconds + 0.1);
  return Object.entries({ ...memoryBound, ...products }).map(([name, runOf]) =>
    single(name, seconds, () => measured(name, runOf(openKernels("native"), batch), rounds)),
  );
}

const memoryBound: Readonly<Record<string, (kernels: Kernels, batch: number) => Run>> = {
  "layerNorm.f32.64.forward": (kernels, batch) => layerNormOf(kernels, batch * 32, dim).forward,
  "layerNorm.f32.64.backward": (kernels, batch) => layerNormOf(kernels, batch * 32, dim).backward,
  "layerNorm.f32.648.forward": (kernels, batch) =>
    layerNormOf(kernels, batch, vectors * rank).forward,
  "layerNorm.f32.648.backward": (kernels, batch) =>
    layerNormOf(kernels, batch, vectors * rank).backward,
  "batchNorm.f32.512.forward": (kernels, batch) => batchNormOf(kernels, batch, 512),
  "multiply.f32.1728": (kernels, batch) => elements(kernels, batch, 2, "multiply"),
  "add.f32.1728": (kernels, batch) => elements(kernels, batch, 2, "add"),
  "sigmoid.f32.1728": (kernels, batch) => elements(kernels, batch, 1, "sigmoid"),
  "softmax.f32.64": (kernels, batch) => {
    const x = filled(kernels, [(batch * crossWidth) / dim, dim]);
    const out = kernels.tensor(x.shape);
    return { work: { bytes: bytesOf(x, out) }, call: () => kernels.softmax(out, x) };
  },
};

const products: Readonly<Record<string, (kernels: Kernels, batch: number) => Run>> = {
  // The products of Wukong's factorisation machine and linear compression.
  "products.f32.shared.24x27x64": (kernels, batch) => {
    const [a, x] = [filled(kernels, [rank, vectors]), filled(kernels, [batch, vectors, dim])];
    const out = kernels.tensor([batch, rank, dim]);
    const flop = 2 * batch * rank * vectors * dim;
    return { work: { flop }, call: () => kernels.products(out, a, x, "ab") };
  },
  "products.f32.each.27x64x24": (kernels, batch) => {
    const [x, y] = [filled(kernels, [batch, vectors, dim]), filled(kernels, [batch, rank, dim])];
    const out = kernels.tensor([batch, vectors, rank]);
    const flop = 2 * batch * vectors * dim * rank;
    return { work: { flop }, call: () => kernels.products(out, x, y, "abT") };
  },
  "products.f32.each.24x27x64.transposed": (kernels, batch) => {
    const [d, x] = [
      filled(kernels, [batch, vectors, rank]),
      filled(kernels, [batch, vectors, dim]),
    ];
    const out = kernels.tensor([batch, rank, dim]);
    const flop = 2 * batch * rank * vectors * dim;
    return { work: { flop }, call: () => kernels.products(out, d, x, "aTb") };
  },
  "products.f32.shared.24x27x64.weights": (kernels, batch) => {
    const [d, x] = [filled(kernels, [batch, rank, dim]), filled(kernels, [batch, vectors, dim])];
    const cut = slicesOf(0, slices, slices, batch);
    const dA = [kernels.tensor([rank, vectors])];
    const flop = 2 * batch * rank * vectors * dim;
    return { work: { flop }, call: () => kernels.dShared(dA, d, x, cut) };
  },
};

function layerNormOf(kernels: Kernels, rows: number, columns: number) {
  const [x, d] = [filled(kernels, [rows, columns]), filled(kernels, [rows, columns])];
  const [out, dX] = [kernels.tensor(x.shape), kernels.tensor(x.shape)];
  const saved = kernels.tensor([rows, 2]);
  const [gain, bias] = [filled(kernels, [columns]), filled(kernels, [columns])];
  const [dGain, dBias] = [kernels.tensor([columns]), kernels.tensor([columns])];
  const cut = slicesOf(0, slices, slices, rows);
  const forward = () => kernels.layerNorm(out, saved, x, gain, bias, 1e-5);
  forward();
  return {
    forward: { work: { bytes: bytesOf(x, out) }, call: forward },
    backward: {
      work: { bytes: bytesOf(x, d, dX) },
      call: () => kernels.dLayerNorm(dX, [dGain], [dBias], d, { saved, x, gain }, cut),
    },
  };
}

function batchNormOf(kernels: Kernels, rows: number, columns: number): Run {
  const x = filled(kernels, [rows, columns]);
  const out = kernels.tensor(x.shape);
  const own = () => filled(kernels, [columns]);
  const statistics = { mean: own(), unit: own(), gain: own(), bias: own() };
  const call = () => kernels.batchNorm(out, x, statistics, true);
  return { work: { bytes: bytesOf(x, out) }, call };
}

function elements(
  kernels: Kernels,
  batch: number,
  operands: 1 | 2,
  kernel: "add" | "multiply" | "sigmoid",
): Run {
  const [a, b] = [filled(kernels, [batch, crossWidth]), filled(kernels, [batch, crossWidth])];
  const out = kernels.tensor(a.shape);
  const bytes = bytesOf(a, out) + (operands === 2 ? bytesOf(b) : 0);
  const call = () => (kernel === "sigmoid" ? kernels.sigmoid(out, a) : kernels[kernel](out, a, b));
  return { work: { bytes }, call };
}

function measured(name: string, { work, call }: Run, rounds: number): BenchRow {
  const isProduct = "flop" in work;
  const amount = isProduct ? work.flop / 1e9 : work.bytes / 1e9;
  // A copy reads and writes: it moves twice the bytes that it copies.
  const bare = () =>
    isProduct
      ? limit("fma", roundSeconds)
      : (2 * limit("memcpy", Math.round(work.bytes / 2), roundSeconds)) / 1e9;
  const ours: number[] = [];
  const limits: number[] = [];
  call();
  for (let round = 0; round < rounds; round++) {
    ours.push(fastest(amount, roundSeconds, call));
    limits.push(bare());
  }
  const unit = isProduct ? "GFLOP/s" : "GB/s";
  const limitIs = isProduct ? "multiply-adds from registers" : "a copy of as many bytes";
  return rowOf({ name, unit, limitIs }, ours, limits);
}

function bytesOf(...tensors: readonly Tensor[]): number {
  return tensors.reduce((sum, { shape }) => sum + 4 * shape.reduce((a, b) => a * b, 1), 0);
}

export function filled(kernels: Kernels, shape: readonly number[]): Tensor {
  const tensor = kernels.tensor(shape);
  kernels.uniform(tensor, [1, 2], 3, 0, 0.5);
  return tensor;
}
