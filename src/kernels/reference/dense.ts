// Dense layers, dropout, interaction, initialisation and sums over devices, in plain loops.

import { type Key, philox } from "../../ports/random.ts";
import type { Kernels, Tensor } from "../contract/kernels.ts";
import { encodeRow } from "../contract/precision.ts";
import { finishedSubtrees, type Slices, type Subtree } from "../contract/slices.ts";
import { HostTensor, type Values, valuesOf } from "./memory.ts";
import type { Round } from "./round.ts";

/** Adds a value to a fold by the tree of slices.ts. Values come in the order of the slices. */
type Fold = (value: number, first: number, count: number) => void;

/** The dense half of the kernels. */
export type DenseKernels = Pick<Kernels, keyof ReturnType<typeof createDense>>;

/** The dense half of the reference kernels in the precision of `round`. */
export function createDense(round: Round) {
  return {
    uniform: (t, key, purpose, first, scale) =>
      uniform(round, valuesOf(t), key, purpose, first, scale),

    born(rows, key, purpose, scale) {
      const { dim, precision, firstRow, firstColumn, tableDim } = rows;
      const stored = valuesOf(rows.weights);
      const decoded = new Float64Array(dim);
      for (let row = 0; row < rows.rows; row++) {
        const isStored = precision === "float32";
        const weights = isStored ? stored.subarray(row * dim, (row + 1) * dim) : decoded;
        const first = (firstRow + row) * tableDim + firstColumn;
        uniform(round, weights, key, purpose, first, scale);
        if (!isStored) encodeRow(rows, row, weights);
      }
    },

    linear: (out, x, w, b, relu) => layer(round, out, x, w, b, relu),

    packLayer: (w) => new HostTensor(w.shape, valuesOf(w).slice()),

    linearPacked: (out, x, packed, b, relu) => layer(round, out, x, packed, b, relu),

    dRelu(d, out) {
      const [ds, o] = [valuesOf(d), valuesOf(out)];
      for (let i = 0; i < ds.length; i++) if (!(o[i]! > 0)) ds[i] = 0;
    },

    dLinearInput(dX, dOut, w, _precision, plus = []) {
      const [dx, d, ws, more] = [valuesOf(dX), valuesOf(dOut), valuesOf(w), plus.map(valuesOf)];
      const [outputs, inputs] = [w.shape[0]!, w.shape[1]!];
      const samples = dOut.shape[0]!;
      for (let s = 0; s < samples; s++) {
        for (let i = 0; i < inputs; i++) {
          let acc = 0;
          for (let j = 0; j < outputs; j++) {
            acc = round.fused(acc, d[s * outputs + j]!, ws[j * inputs + i]!);
          }
          const at = s * inputs + i;
          dx[at] = more.reduce((sum, one) => round(sum + one[at]!), acc);
        }
      }
    },

    dLinearWeight(dW, dB, dOut, x, slices) {
      const trees = finishedSubtrees(slices);
      trees.forEach((tree, p) => {
        dWeight(round, valuesOf(dW[p]!), dW[p]!.shape, dOut, x, slices, tree);
        dBias(round, valuesOf(dB[p]!), dOut, slices, tree);
      });
    },

    dropout(x, key, purpose, step, firstSample, rate) {
      const values = valuesOf(x);
      const keep = round(1 - rate);
      const limit = Math.floor(rate * 2 ** 32);
      const first = firstSample * (values.length / Math.max(1, x.shape[0]!));
      const words = new Uint32Array(4);
      for (let i = 0; i < values.length; i++) {
        const block = Math.floor((first + i) / 4);
        if (i === 0 || (first + i) % 4 === 0) {
          const counter = [block >>> 0, Math.floor(block / 2 ** 32) >>> 0, step >>> 0] as const;
          philox(words, key, [...counter, purpose >>> 0]);
        }
        values[i] = words[(first + i) % 4]! < limit ? 0 : round(values[i]! / keep);
      }
    },

    interact: (out, x, copied, dots) => interact(round, out, x, copied, dots),
    dInteract: (dX, dOut, x, copied, dots) => dInteract(round, dX, dOut, x, copied, dots),

    foldSubtrees(out, parts, trees, slices) {
      const o = valuesOf(out);
      const ps = parts.map(valuesOf);
      for (let i = 0; i < o.length; i++) {
        let total = 0;
        const push = startFold(round, (value, count) => {
          if (count === slices) total = value;
        });
        trees.forEach((tree, p) => {
          push(ps[p]![i]!, tree.first, tree.count);
        });
        o[i] = total;
      }
    },
  } satisfies Partial<Kernels>;
}

/** out (B,O) = x (B,I) * w (O,I)^T + b (O), then ReLU if `relu`. */
function layer(round: Round, out: Tensor, x: Tensor, w: Tensor, b: Tensor, relu: boolean): void {
  const [o, xs, ws, bs] = [valuesOf(out), valuesOf(x), valuesOf(w), valuesOf(b)];
  const [outputs, inputs] = [w.shape[0]!, w.shape[1]!];
  const samples = x.shape[0]!;
  for (let s = 0; s < samples; s++) {
    for (let j = 0; j < outputs; j++) {
      let acc = bs[j]!;
      for (let i = 0; i < inputs; i++) {
        acc = round.fused(acc, xs[s * inputs + i]!, ws[j * inputs + i]!);
      }
      o[s * outputs + j] = relu && acc < 0 ? 0 : acc;
    }
  }
}

/** See `Kernels.uniform`. */
export function uniform(
  round: Round,
  values: Values,
  key: Key,
  purpose: number,
  first: number,
  scale: number,
): void {
  const factor = round(scale);
  const words = new Uint32Array(4);
  for (let i = 0; i < values.length; i++) {
    const block = Math.floor((first + i) / 4);
    if (i === 0 || (first + i) % 4 === 0) {
      philox(words, key, [block >>> 0, Math.floor(block / 2 ** 32) >>> 0, 0, purpose >>> 0]);
    }
    const u24 = words[(first + i) % 4]! >>> 8;
    values[i] = round((u24 * 2 ** -23 - 1) * factor);
  }
}

/** A fold that adds adjacent nodes once they are siblings. Calls `folded` for every new node. */
function startFold(round: Round, folded: (value: number, count: number) => void): Fold {
  const stack: { value: number; first: number; count: number }[] = [];
  return (value, first, count) => {
    let node = { value, first, count };
    for (;;) {
      const left = stack.at(-1);
      if (left === undefined || left.count !== node.count || left.first % (2 * left.count) !== 0) {
        break;
      }
      stack.pop();
      const sum = round(left.value + node.value);
      node = { value: sum, first: left.first, count: 2 * left.count };
    }
    stack.push(node);
    folded(node.value, node.count);
  };
}

/** The sum over the slices of `tree`, as a tree. `slice` sums the samples from..to-1 in order. */
export function treeSum(
  round: Round,
  tree: Subtree,
  slices: Slices,
  slice: (from: number, to: number) => number,
): number {
  const { first, count } = tree;
  if (count === 1) {
    const i = first - slices.first;
    return slice(slices.bounds[i]!, slices.bounds[i + 1]!);
  }
  const half = count / 2;
  const left = treeSum(round, { first, count: half }, slices, slice);
  const right = treeSum(round, { first: first + half, count: half }, slices, slice);
  return round(left + right);
}

function dWeight(
  round: Round,
  dw: Values,
  shape: readonly number[],
  dOut: Tensor,
  x: Tensor,
  slices: Slices,
  tree: Subtree,
): void {
  const [d, xs] = [valuesOf(dOut), valuesOf(x)];
  const [outputs, inputs] = [shape[0]!, shape[1]!];
  for (let j = 0; j < outputs; j++) {
    for (let i = 0; i < inputs; i++) {
      dw[j * inputs + i] = treeSum(round, tree, slices, (from, to) => {
        let acc = 0;
        for (let s = from; s < to; s++) {
          acc = round.fused(acc, d[s * outputs + j]!, xs[s * inputs + i]!);
        }
        return acc;
      });
    }
  }
}

/** dB (O) = column sums of dOut over the slices of `tree`. */
export function dBias(round: Round, db: Values, dOut: Tensor, slices: Slices, tree: Subtree): void {
  const d = valuesOf(dOut);
  const outputs = db.length;
  for (let j = 0; j < outputs; j++) {
    db[j] = treeSum(round, tree, slices, (from, to) => {
      let acc = 0;
      for (let s = from; s < to; s++) acc = round(acc + d[s * outputs + j]!);
      return acc;
    });
  }
}

function interact(round: Round, out: Tensor, x: Tensor, copied: number, dots: boolean): void {
  const [o, xs] = [valuesOf(out), valuesOf(x)];
  const [samples, features, dim] = [x.shape[0]!, x.shape[1]!, x.shape[2]!];
  let at = 0;
  for (let s = 0; s < samples; s++) {
    const base = s * features * dim;
    for (let c = 0; c < copied * dim; c++) o[at++] = xs[base + c]!;
    for (let i = 0; dots && i < features; i++) {
      for (let j = 0; j < i; j++) {
        let acc = 0;
        for (let c = 0; c < dim; c++) {
          acc = round.fused(acc, xs[base + i * dim + c]!, xs[base + j * dim + c]!);
        }
        o[at++] = acc;
      }
    }
  }
}

function dInteract(
  round: Round,
  dX: Tensor,
  dOut: Tensor,
  x: Tensor,
  copied: number,
  dots: boolean,
): void {
  const [dx, d, xs] = [valuesOf(dX), valuesOf(dOut), valuesOf(x)];
  const [samples, features, dim] = [x.shape[0]!, x.shape[1]!, x.shape[2]!];
  const width = copied * dim + (dots ? (features * (features - 1)) / 2 : 0);
  for (let s = 0; s < samples; s++) {
    const pairs = s * width + copied * dim;
    const base = s * features * dim;
    for (let i = 0; i < features; i++) {
      for (let c = 0; c < dim; c++) {
        let acc = i < copied ? d[s * width + i * dim + c]! : 0;
        for (let j = 0; dots && j < features; j++) {
          if (j === i) continue;
          const [high, low] = [Math.max(i, j), Math.min(i, j)];
          const dz = d[pairs + (high * (high - 1)) / 2 + low]!;
          acc = round.fused(acc, dz, xs[base + j * dim + c]!);
        }
        dx[base + i * dim + c] = acc;
      }
    }
  }
}
