// Dense layers with bfloat16 operands, in plain loops, with the exact arithmetic of the instruction
// VDPBF16PS.
//
// Operands are rounded to bfloat16. The sum over k goes by pairs from the first k on, the odd k of
// a pair before the even k; if the last pair has one k, its odd half is 0 times 0. Each product is
// added to the float32 sum and rounded once: a product of two bfloat16 is exact in a double, and
// its sum with a float32 is close enough that Math.fround of it is a fused multiply-add. A number
// below the smallest normal number is flushed to 0: as an operand, and as a sum before and after an
// addition.

import { finishedSubtrees } from "../contract/slices.ts";
import { type DenseKernels, dBias, treeSum } from "./dense.ts";
import { type Values, valuesOf } from "./memory.ts";
import { type Round, single } from "./round.ts";

const smallestNormal = 2 ** -126;
/** The least number that rounds to the smallest normal if exponents are unbounded. */
const roundsToNormal = smallestNormal * (1 - 2 ** -25);

const bits = new Uint32Array(1);
const numbers = new Float32Array(bits.buffer);

/** The bfloat16 nearest to a float32, ties to even, as a number. */
export function toBfloat16(value: number): number {
  if (Math.abs(value) < smallestNormal) return 0 * value;
  numbers[0] = value;
  if (Number.isNaN(value)) return value;
  const word = bits[0]!;
  bits[0] = (word + 0x7fff + ((word >>> 16) & 1)) & 0xffff0000;
  return numbers[0];
}

/** A strided vector: element i is values[at + i*step]. */
interface Run {
  readonly values: Values;
  readonly at: number;
  readonly step: number;
}

/** start + a . b over `count` terms, by pairs; `a` and `b` contain bfloat16 numbers. */
type Dot = (start: number, a: Run, b: Run, count: number) => number;

/** The dot product with this rounding. In float64 nothing is flushed to zero. */
function dotOf(round: Round): Dot {
  const isSingle = round === single;
  const taken = (sum: number) => (isSingle && Math.abs(sum) < smallestNormal ? 0 * sum : sum);
  const put = (sum: number) => (isSingle && Math.abs(sum) < roundsToNormal ? 0 * sum : round(sum));
  return (start, a, b, count) => {
    let sum = count === 0 ? start : taken(start);
    const add = (i: number) => {
      const left = i < count ? a.values[a.at + i * a.step]! : 0;
      const right = i < count ? b.values[b.at + i * b.step]! : 0;
      sum = put(sum + left * right);
    };
    for (let i = 0; i < count; i += 2) {
      add(i + 1);
      add(i);
    }
    return sum;
  };
}

/** `dense`, with layers that also support bfloat16 operands. */
export function withBfloat16(dense: DenseKernels, round: Round): DenseKernels {
  const own = createBfloat16(round);
  return {
    ...dense,
    linear: (out, x, w, b, relu, precision) =>
      (precision === "bfloat16" ? own : dense).linear(out, x, w, b, relu),
    dLinearInput(dX, dOut, w, precision, plus, above) {
      (precision === "bfloat16" ? own : dense).dLinearInput(dX, dOut, w, precision, plus);
      if (above !== undefined) dense.dRelu(dX, above);
    },
    dLinearWeight: (dW, dB, dOut, x, slices, precision) =>
      (precision === "bfloat16" ? own : dense).dLinearWeight(dW, dB, dOut, x, slices),
  };
}

type Products = Pick<DenseKernels, "linear" | "dLinearInput" | "dLinearWeight">;

function createBfloat16(round: Round): Products {
  const dot = dotOf(round);
  return {
    linear(out, x, w, b, relu) {
      const [o, bs] = [valuesOf(out), valuesOf(b)];
      const [xs, ws] = [valuesOf(x).map(toBfloat16), valuesOf(w).map(toBfloat16)];
      const [outputs, inputs] = [w.shape[0]!, w.shape[1]!];
      const samples = x.shape[0]!;
      for (let s = 0; s < samples; s++) {
        for (let j = 0; j < outputs; j++) {
          const left = { values: xs, at: s * inputs, step: 1 };
          const right = { values: ws, at: j * inputs, step: 1 };
          const sum = dot(bs[j]!, left, right, inputs);
          o[s * outputs + j] = relu && sum < 0 ? 0 : sum;
        }
      }
    },

    dLinearInput(dX, dOut, w, _precision, plus = []) {
      const [dx, more] = [valuesOf(dX), plus.map(valuesOf)];
      const [ds, ws] = [valuesOf(dOut).map(toBfloat16), valuesOf(w).map(toBfloat16)];
      const [outputs, inputs] = [w.shape[0]!, w.shape[1]!];
      const samples = dOut.shape[0]!;
      for (let s = 0; s < samples; s++) {
        for (let i = 0; i < inputs; i++) {
          const left = { values: ds, at: s * outputs, step: 1 };
          const at = s * inputs + i;
          const acc = dot(0, left, { values: ws, at: i, step: inputs }, outputs);
          dx[at] = more.reduce((sum, one) => round(sum + one[at]!), acc);
        }
      }
    },

    dLinearWeight(dW, dB, dOut, x, slices) {
      const [ds, xs] = [valuesOf(dOut).map(toBfloat16), valuesOf(x).map(toBfloat16)];
      const trees = finishedSubtrees(slices);
      trees.forEach((tree, p) => {
        const [outputs, inputs] = [dW[p]!.shape[0]!, dW[p]!.shape[1]!];
        const dw = valuesOf(dW[p]!);
        for (let at = 0; at < dw.length; at++) {
          const [j, i] = [Math.floor(at / inputs), at % inputs];
          dw[at] = treeSum(round, tree, slices, (from, to) => {
            const left = { values: ds, at: from * outputs + j, step: outputs };
            const right = { values: xs, at: from * inputs + i, step: inputs };
            return dot(0, left, right, to - from);
          });
        }
        dBias(round, valuesOf(dB[p]!), dOut, slices, tree);
      });
    },
  };
}
