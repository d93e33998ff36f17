// The reference kernels of model blocks, in plain loops.

import type { BlockKernels, Kernels, Tensor } from "../contract/kernels.ts";
import { finishedSubtrees } from "../contract/slices.ts";
import { createBatchNorm } from "./batch-norm.ts";
import { batchStatistics, divide, wholeBatchStatistics } from "./batch-statistics.ts";
import { dBias as sumColumns, treeSum } from "./dense.ts";
import { dJointLogit, dSigmoid, dSoftmax, jointLogit, sigmoid, softmax } from "./exponentials.ts";
import { HostTensor, type Values, valuesOf } from "./memory.ts";
import type { Round } from "./round.ts";

/** The reference kernels of model blocks in the precision of `round`. */
export function createBlocks(round: Round): BlockKernels {
  const products = createProducts(round);
  return {
    add(out, a, b) {
      const [o, as, bs] = [valuesOf(out), valuesOf(a), valuesOf(b)];
      for (let i = 0; i < o.length; i++) o[i] = round(as[i]! + bs[i]!);
    },
    addBeside(out, values, other) {
      const [o, more, rows] = [valuesOf(out), valuesOf(other), out.shape[0]!];
      let at = 0;
      for (let row = 0; row < rows; row++) {
        for (const value of values) {
          const width = valuesOf(value).length / rows;
          const own = valuesOf(value).subarray(row * width, (row + 1) * width);
          for (const left of own) o[at] = round(left + more[at++]!);
        }
      }
    },
    multiply(out, a, b) {
      const [o, as, bs] = [valuesOf(out), valuesOf(a), valuesOf(b)];
      for (let i = 0; i < o.length; i++) o[i] = round(as[i]! * bs[i]!);
    },
    dMultiply(dA, dB, dOut, a, b) {
      const [da, db, d] = [valuesOf(dA), valuesOf(dB), valuesOf(dOut)];
      const [as, bs] = [valuesOf(a), valuesOf(b)];
      for (let i = 0; i < d.length; i++) {
        da[i] = round(d[i]! * bs[i]!);
        db[i] = round(d[i]! * as[i]!);
      }
    },
    multiplyAdd(out, a, b, c) {
      const [o, as, bs, cs] = [valuesOf(out), valuesOf(a), valuesOf(b), valuesOf(c)];
      for (let i = 0; i < o.length; i++) o[i] = round(round(as[i]! * bs[i]!) + cs[i]!);
    },
    relu(out, x) {
      const [o, xs] = [valuesOf(out), valuesOf(x)];
      for (let i = 0; i < o.length; i++) o[i] = xs[i]! < 0 ? 0 : xs[i]!;
    },
    scale(out, x, factor) {
      const [o, xs] = [valuesOf(out), valuesOf(x)];
      for (let i = 0; i < o.length; i++) o[i] = round(xs[i]! * Math.fround(factor));
    },
    leakyRelu(out, x, slope) {
      const [o, xs] = [valuesOf(out), valuesOf(x)];
      const below = Math.fround(slope);
      for (let i = 0; i < o.length; i++) o[i] = xs[i]! < 0 ? round(xs[i]! * below) : xs[i]!;
    },
    dLeakyRelu(d, out, slope) {
      const [ds, o] = [valuesOf(d), valuesOf(out)];
      const below = Math.fround(slope);
      for (let i = 0; i < o.length; i++) if (o[i]! < 0) ds[i] = round(ds[i]! * below);
    },
    ...createPairs(round),
    jointLogit,
    dJointLogit,
    sigmoid,
    dSigmoid,
    softmax,
    dSoftmax,
    wholeBatchStatistics,
    batchStatistics,
    divide,
    ...products,
    ...createRankProducts(products),
    ...createPairSum(round),
    ...createLayerNorm(round),
    ...createBatchNorm(round),
  };
}

function createProducts(round: Round) {
  return {
    products(out, a, b, form, plus = []) {
      const [o, as, bs, more] = [valuesOf(out), valuesOf(a), valuesOf(b), plus.map(valuesOf)];
      const [samples, rows, columns] = [out.shape[0]!, out.shape[1]!, out.shape[2]!];
      const depth = form === "aTb" ? a.shape.at(-2)! : a.shape.at(-1)!;
      const step = a.shape.length === 2 ? 0 : rows * depth;
      const [aRow, aDepth] = form === "aTb" ? [1, rows] : [depth, 1];
      const [bDepth, bColumn] = form === "abT" ? [1, depth] : [columns, 1];
      for (let s = 0; s < samples; s++) {
        for (let m = 0; m < rows; m++) {
          for (let n = 0; n < columns; n++) {
            let acc = 0;
            for (let k = 0; k < depth; k++) {
              const right = bs[s * depth * columns + k * bDepth + n * bColumn]!;
              acc = round.fused(acc, as[s * step + m * aRow + k * aDepth]!, right);
            }
            const at = (s * rows + m) * columns + n;
            o[at] = more.reduce((sum, one) => round(sum + one[at]!), acc);
          }
        }
      }
    },

    dShared(dA, dOut, b, slices) {
      const [d, bs] = [valuesOf(dOut), valuesOf(b)];
      const [rows, columns, depth] = [dOut.shape[1]!, dOut.shape[2]!, b.shape[1]!];
      for (const [p, tree] of finishedSubtrees(slices).entries()) {
        const da = valuesOf(dA[p]!);
        for (let i = 0; i < rows * depth; i++) {
          const [m, k] = [Math.floor(i / depth), i % depth];
          da[i] = treeSum(round, tree, slices, (from, to) => {
            let acc = 0;
            for (let s = from; s < to; s++) {
              for (let n = 0; n < columns; n++) {
                const left = d[(s * rows + m) * columns + n]!;
                acc = round.fused(acc, left, bs[(s * depth + k) * columns + n]!);
              }
            }
            return acc;
          });
        }
      }
    },
  } satisfies Partial<Kernels>;
}

/** Rank products, composed of the kernels `products` and `dShared`. */
function createRankProducts({ products, dShared }: Pick<Kernels, "products" | "dShared">) {
  const like = (t: Tensor) => new HostTensor(t.shape, valuesOf(t).slice());
  return {
    rankProducts(out, y, x, w) {
      products(y, w, x, "ab");
      products(out, x, y, "abT");
    },

    dRankProducts(dX, dW, dOut, { x, y, w }, slices, plus = []) {
      const [dY, direct] = [like(y), like(x)];
      products(dY, dOut, x, "aTb");
      products(direct, dOut, y, "ab");
      dShared(dW, dY, x, slices);
      products(dX, w, dY, "aTb", [direct, ...plus]);
    },
  } satisfies Partial<Kernels>;
}

function createPairs(round: Round) {
  const extents = (a: Tensor, b: Tensor) => [a.shape[1]!, b.shape[1]!, a.shape[2]!] as const;
  /** The index of element (s,m,n,i) of (B,M,N,D). */
  const at = (s: number, m: number, n: number, i: number, [ms, ns, dim]: readonly number[]) =>
    ((s * ms! + m) * ns! + n) * dim! + i;
  return {
    pairs(out, a, b) {
      const [o, as, bs] = [valuesOf(out), valuesOf(a), valuesOf(b)];
      const [ms, ns, dim] = extents(a, b);
      for (let j = 0; j < o.length; j++) {
        const [i, n, row] = [j % dim, Math.floor(j / dim) % ns, Math.floor(j / dim / ns)];
        const s = Math.floor(row / ms);
        o[j] = round(as[row * dim + i]! * bs[(s * ns + n) * dim + i]!);
      }
    },
    dPairsLeft(dA, dOut, b) {
      const [da, d, bs] = [valuesOf(dA), valuesOf(dOut), valuesOf(b)];
      const all = extents(dA, b);
      const [ms, ns, dim] = all;
      for (let j = 0; j < da.length; j++) {
        const [i, m, s] = [j % dim, Math.floor(j / dim) % ms, Math.floor(j / dim / ms)];
        let acc = 0;
        for (let n = 0; n < ns; n++) {
          acc = round.fused(acc, d[at(s, m, n, i, all)]!, bs[(s * ns + n) * dim + i]!);
        }
        da[j] = acc;
      }
    },
    dPairsRight(dB, dOut, a) {
      const [db, d, as] = [valuesOf(dB), valuesOf(dOut), valuesOf(a)];
      const all = extents(a, dB);
      const [ms, ns, dim] = all;
      for (let j = 0; j < db.length; j++) {
        const [i, n, s] = [j % dim, Math.floor(j / dim) % ns, Math.floor(j / dim / ns)];
        let acc = 0;
        for (let m = 0; m < ms; m++) {
          acc = round.fused(acc, d[at(s, m, n, i, all)]!, as[(s * ms + m) * dim + i]!);
        }
        db[j] = acc;
      }
    },
  } satisfies Partial<Kernels>;
}

function createPairSum(round: Round) {
  /** The sum of a sample's vectors in column i. */
  const sumAt = (xs: Values, first: number, count: number, dim: number, i: number) => {
    let acc = 0;
    for (let f = 0; f < count; f++) acc = round(acc + xs[first + f * dim + i]!);
    return acc;
  };
  return {
    pairSum(out, x) {
      const [o, xs] = [valuesOf(out), valuesOf(x)];
      const [count, dim] = [x.shape[1]!, x.shape[2]!];
      for (let s = 0; s < o.length; s++) {
        const first = s * count * dim;
        const total = sumOf(round, dim, (acc, i) => {
          const sum = sumAt(xs, first, count, dim, i);
          let squares = 0;
          for (let f = 0; f < count; f++) {
            const value = xs[first + f * dim + i]!;
            squares = round.fused(squares, value, value);
          }
          return round(acc + round(round(sum * sum) - squares));
        });
        o[s] = round(0.5 * total);
      }
    },

    dPairSum(dX, dOut, x) {
      const [dx, d, xs] = [valuesOf(dX), valuesOf(dOut), valuesOf(x)];
      const [count, dim] = [x.shape[1]!, x.shape[2]!];
      for (let s = 0; s < d.length; s++) {
        const first = s * count * dim;
        for (let i = 0; i < dim; i++) {
          const sum = sumAt(xs, first, count, dim, i);
          for (let f = 0; f < count; f++) {
            const at = first + f * dim + i;
            dx[at] = round(d[s]! * round(sum - xs[at]!));
          }
        }
      }
    },
  } satisfies Partial<Kernels>;
}

function createLayerNorm(round: Round) {
  return {
    layerNorm(out, saved, x, gain, bias, epsilon) {
      const [o, xs, kept] = [valuesOf(out), valuesOf(x), valuesOf(saved)];
      const [gs, bs] = [valuesOf(gain), valuesOf(bias)];
      const dim = gs.length;
      for (let row = 0; row < kept.length / 2; row++) {
        const own = xs.subarray(row * dim, (row + 1) * dim);
        const mean = round(sumOf(round, dim, (acc, i) => round(acc + own[i]!)) / dim);
        const squares = sumOf(round, dim, (acc, i) => {
          const centred = round(own[i]! - mean);
          return round.fused(acc, centred, centred);
        });
        const unit = round(1 / round(Math.sqrt(round(round(squares / dim) + round(epsilon)))));
        kept.set([mean, unit], 2 * row);
        for (let i = 0; i < dim; i++) {
          const scaled = round(round(own[i]! - mean) * unit);
          o[row * dim + i] = round.fused(bs[i]!, scaled, gs[i]!);
        }
      }
    },

    dLayerNorm(dX, dGain, dBias, dOut, { saved, x, gain }, slices) {
      const [d, xs, kept, gs] = [valuesOf(dOut), valuesOf(x), valuesOf(saved), valuesOf(gain)];
      const dx = dX && valuesOf(dX);
      const dim = gs.length;
      for (let row = 0; dx !== undefined && row < kept.length / 2; row++) {
        const scaled = (i: number) => scaledAt(round, xs, kept, dim, row, i);
        const own = (i: number) => round(gs[i]! * d[row * dim + i]!);
        const mean = round(sumOf(round, dim, (acc, i) => round(acc + own(i))) / dim);
        const along = sumOf(round, dim, (acc, i) => round.fused(acc, own(i), scaled(i)));
        const slope = round(along / dim);
        for (let i = 0; i < dim; i++) {
          const centred = round(own(i) - mean);
          dx[row * dim + i] = round(round.fused(centred, -scaled(i), slope) * kept[2 * row + 1]!);
        }
      }
      for (const [p, tree] of finishedSubtrees(slices).entries()) {
        const dg = valuesOf(dGain[p]!);
        for (let i = 0; i < dim; i++) {
          dg[i] = treeSum(round, tree, slices, (from, to) => {
            let acc = 0;
            for (let row = from; row < to; row++) {
              acc = round.fused(acc, d[row * dim + i]!, scaledAt(round, xs, kept, dim, row, i));
            }
            return acc;
          });
        }
        sumColumns(round, valuesOf(dBias[p]!), dOut, slices, tree);
      }
    },
  } satisfies Partial<Kernels>;
}

/** Element i of a row, normalised: minus the row's mean, divided by its standard deviation. */
function scaledAt(
  round: Round,
  xs: Values,
  kept: Values,
  dim: number,
  row: number,
  i: number,
): number {
  return round(round(xs[row * dim + i]! - kept[2 * row]!) * kept[2 * row + 1]!);
}

const sumLanes = 32;

/** A sum over n elements in 32 lanes, then a tree over lanes. `push` adds element i to a lane. */
function sumOf(round: Round, n: number, push: (acc: number, i: number) => number): number {
  const lanes = new Float64Array(sumLanes);
  for (let i = 0; i < n; i++) lanes[i % sumLanes] = push(lanes[i % sumLanes]!, i);
  for (let half = sumLanes / 2; half >= 1; half /= 2) {
    for (let i = 0; i < half; i++) lanes[i] = round(lanes[i]! + lanes[i + half]!);
  }
  return lanes[0]!;
}
