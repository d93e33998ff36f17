// Question: how close is each kernel, on one thread, to what the machine can do? Every figure
// stands beside its limit, measured in alternation in the same run: the best BLAS that is installed
// for products, a bare prefetching loop in C for rows.

import type { DensePrecision, Kernels } from "../../src/kernels/contract/kernels.ts";
import { slicesOf } from "../../src/kernels/contract/slices.ts";
import { openKernels } from "../../src/kernels/index.ts";
import { configuration, configurationNames } from "../configurations.ts";
import { bestBlas, limit, type Pass } from "../limits/limits.ts";
import { type BenchRow, fastest, rowOf } from "../report.ts";
import { benchRows } from "./rows.bench.ts";

/** Rounds of ours and of the limit, in turn. */
const rounds = 5;
const roundSeconds = 0.15;
const slices = 8;

export interface KernelsBenchOptions {
  readonly batch: number;
  /** Gibibytes of the table that rows are read from. */
  readonly tableGib: number;
  /** What the names of the rows begin with that are wanted. */
  readonly only: string;
}

export async function benchKernels(options: KernelsBenchOptions): Promise<BenchRow[]> {
  const { batch, tableGib, only } = options;
  const kernels = openKernels("native");
  const groups: Readonly<Record<string, () => BenchRow[]>> = {
    "gemm.f32": () => gemmRows(kernels, batch, "float32", only),
    "gemm.bf16": () => gemmRows(kernels, batch, "bfloat16", only),
    interaction: () => interactionRows(kernels, batch),
  };
  const wanted = Object.entries(groups).filter(
    ([name]) => name.startsWith(only) || only.startsWith(name),
  );
  return [...wanted.flatMap(([, rows]) => rows()), ...(await benchRows(tableGib, only))];
}

/**
 * Forward, input gradient and weight gradient of every layer of configurations a, b and c. The
 * limit of float32 is the best BLAS; bfloat16 is held against our float32.
 */
function gemmRows(
  kernels: Kernels,
  batch: number,
  precision: DensePrecision,
  only: string,
): BenchRow[] {
  const rows: BenchRow[] = [];
  const shapes = new Map<string, readonly [number, number]>();
  for (const name of configurationNames) {
    const { layers } = configuration(name);
    for (const [i, shape] of layers.entries()) shapes.set(`${name}.${i}`, shape);
  }
  shapes.set("square", [1024, 1024]);
  for (const [name, [inputs, outputs]] of shapes) {
    if (outputs === 1) continue; // A vector product: bound by memory, and too small to matter.
    const x = filled(kernels, [batch, inputs]);
    const w = filled(kernels, [outputs, inputs]);
    const b = filled(kernels, [outputs]);
    const out = filled(kernels, [batch, outputs]);
    const dX = kernels.tensor([batch, inputs]);
    const dW = kernels.tensor([outputs, inputs]);
    const dB = kernels.tensor([outputs]);
    const cut = slicesOf(0, slices, slices, batch);
    const flop = 2 * batch * inputs * outputs;
    const kind = precision === "float32" ? "f32" : "bf16";
    const row = (
      pass: Pass,
      run: (precision: DensePrecision) => void,
      ...[m, n, k]: readonly [number, number, number]
    ) => {
      const ours = () => run(precision);
      const limitOf = () => {
        if (precision === "bfloat16") {
          return {
            rate: fastest(flop / 1e9, roundSeconds, () => run("float32")),
            is: "our float32, same shape",
          };
        }
        const { rate, name: blas } = bestBlas(pass, m, n, k, roundSeconds);
        return { rate, is: `${blas}, same shape` };
      };
      const row = `gemm.${kind}.${name}.${pass}`;
      if (!row.startsWith(only)) return;
      rows.push(measured(row, "GFLOP/s", flop / 1e9, ours, limitOf));
      if (name !== "square") return;
      rows.push(measured(`${row}.peak`, "GFLOP/s", flop / 1e9, ours, () => peakOf(precision)));
    };
    row("forward", (p) => kernels.linear(out, x, w, b, true, p), batch, outputs, inputs);
    row("dInput", (p) => kernels.dLinearInput(dX, out, w, p), batch, inputs, outputs);
    const dWeight = (p: DensePrecision) => kernels.dLinearWeight([dW], [dB], out, x, cut, p);
    row("dWeight", dWeight, outputs, inputs, batch);
  }
  return rows;
}

/** What the arithmetic alone would allow. */
function peakOf(precision: DensePrecision): { rate: number; is: string } {
  return precision === "float32"
    ? { rate: limit("fma", roundSeconds), is: "multiply-adds from registers" }
    : { rate: limit("bf16", roundSeconds), is: "dot products of pairs from registers" };
}

function interactionRows(kernels: Kernels, batch: number): BenchRow[] {
  return [16, 64].flatMap((dim) => {
    const features = 27;
    const pairs = (features * (features - 1)) / 2;
    const x = filled(kernels, [batch, features, dim]);
    const dX = kernels.tensor([batch, features, dim]);
    const out = filled(kernels, [batch, dim + pairs]);
    const gflop = (2 * batch * pairs * dim) / 1e9;
    const fma = () => peakOf("float32");
    const forward = () => kernels.interact(out, x, 1, true);
    const backward = () => kernels.dInteract(dX, out, x, 1, true);
    return [
      measured(`interaction.f32.${dim}.forward`, "GFLOP/s", gflop, forward, fma),
      measured(`interaction.f32.${dim}.backward`, "GFLOP/s", 2 * gflop, backward, fma),
    ];
  });
}

/** `work` units a call of `run`, in turn with the limit. */
function measured(
  name: string,
  unit: string,
  work: number,
  run: () => void,
  limitOf: () => { rate: number; is: string },
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

function filled(kernels: Kernels, shape: readonly number[]) {
  const tensor = kernels.tensor(shape);
  kernels.uniform(tensor, [1, 2], 3, 0, 0.5);
  return tensor;
}
