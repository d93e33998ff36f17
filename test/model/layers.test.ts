// Every layer's backward against central differences, in the float64 of the reference kernels.

import test, { type ExecutionContext } from "ava";
import type { Kernels, Tensor } from "../../src/kernels/contract/kernels.ts";
import { slicesOf } from "../../src/kernels/contract/slices.ts";
import { valuesOf } from "../../src/kernels/reference/memory.ts";
import { createReference } from "../../src/kernels/reference/reference.ts";
import { batchNorm } from "../../src/model/blocks/batch-norm.ts";
import { bias } from "../../src/model/blocks/bias.ts";
import { repeat, slice, sumOfVectors } from "../../src/model/blocks/columns.ts";
import { sideBySide } from "../../src/model/blocks/concat.ts";
import { crossLayers } from "../../src/model/blocks/cross.ts";
import { dotProducts } from "../../src/model/blocks/dot-products.ts";
import { mul, sigmoid, sub, sum } from "../../src/model/blocks/elements.ts";
import { factorisationMachine } from "../../src/model/blocks/factorisation-machine.ts";
import { fieldLinear } from "../../src/model/blocks/field-linear.ts";
import { layerNorm } from "../../src/model/blocks/layer-norm.ts";
import { linear } from "../../src/model/blocks/linear.ts";
import { mlp } from "../../src/model/blocks/mlp.ts";
import { targetAttention } from "../../src/model/blocks/sequences/target-attention.ts";
import { keyOf, purposes, RandomStream } from "../../src/ports/random.ts";
import { gradientError, randomTensor, weighted } from "../helpers/batches/central-differences.ts";
import { blockHasGradients } from "../helpers/models/block-gradients.ts";

const kernels: Kernels = createReference("float64");
const tolerance = 1e-8;

function isGradient(
  t: ExecutionContext,
  name: string,
  at: Tensor,
  gradient: ArrayLike<number>,
  loss: () => number,
): void {
  const error = gradientError(at, gradient, loss);
  t.true(error <= tolerance, `${name} is off by ${error}`);
}

for (const relu of [false, true]) {
  test(`a linear layer ${relu ? "with" : "without"} ReLU has the gradients of its sum`, (t) => {
    const stream = new RandomStream(relu ? 1 : 2, purposes.faults);
    const [x, w, b] = [[6, 5], [4, 5], [4]].map((shape) => randomTensor(kernels, stream, shape));
    if (x === undefined || w === undefined || b === undefined) return t.fail();
    const dOut = randomTensor(kernels, stream, [6, 4]);
    const out = kernels.tensor([6, 4]);
    const loss = () => {
      kernels.linear(out, x, w, b, relu);
      return weighted(out, dOut);
    };
    loss();
    const d = kernels.tensor([6, 4]);
    kernels.copy(d, dOut);
    if (relu) kernels.dRelu(d, out);
    const dX = kernels.tensor([6, 5]);
    kernels.dLinearInput(dX, d, w);
    const slices = slicesOf(0, 4, 4, 6);
    const [dW, dB] = [kernels.tensor([4, 5]), kernels.tensor([4])];
    kernels.dLinearWeight([dW], [dB], d, x, slices);
    isGradient(t, "dX", x, valuesOf(dX), loss);
    isGradient(t, "dW", w, valuesOf(dW), loss);
    isGradient(t, "dB", b, valuesOf(dB), loss);
  });
}

test("a bfloat16 layer has the float64 gradients within the rounding of its operands", (t) => {
  const stream = new RandomStream(8, purposes.faults);
  const rounded = createReference();
  const [samples, inputs, outputs] = [40, 30, 20];
  const shapes = [[samples, inputs], [outputs, inputs], [outputs], [samples, outputs]] as const;
  const exact = shapes.map((shape) => randomTensor(kernels, stream, shape));
  const single = exact.map((tensor) => {
    const copy = rounded.tensor(tensor.shape);
    rounded.write(copy, kernels.read(tensor));
    return copy;
  });
  const layer = (k: Kernels, tensors: readonly Tensor[], precision: "float32" | "bfloat16") => {
    const [x, w, b, d] = tensors;
    if (x === undefined || w === undefined || b === undefined || d === undefined) return [];
    const [out, dX] = [k.tensor([samples, outputs]), k.tensor([samples, inputs])];
    k.linear(out, x, w, b, false, precision);
    k.dLinearInput(dX, d, w, precision);
    const [dW, dB] = [k.tensor([outputs, inputs]), k.tensor([outputs])];
    k.dLinearWeight([dW], [dB], d, x, slicesOf(0, 4, 4, samples), precision);
    return [out, dX, dW, dB].map((tensor) => [...k.read(tensor)]);
  };
  const expected = layer(kernels, exact, "float32");
  const actual = layer(rounded, single, "bfloat16");
  // Two operands of up to 2^-9 each, relative; terms of random sign, below 1 in size.
  const bounds = [inputs, outputs, samples].map((terms) => 2 ** -8 * Math.sqrt(terms));
  for (const [i, values] of actual.entries()) {
    const errors = values.map((value, at) => Math.abs(value - (expected[i]?.[at] ?? Number.NaN)));
    const [worst, bound] = [Math.max(...errors), bounds[i] ?? 1e-5];
    t.true(worst <= bound, `output ${i} is off by ${worst}, more than ${bound}`);
    if (i < 3) t.true(worst > 1e-4, `output ${i} is off by ${worst} only: is it bfloat16?`);
  }
});

for (const { copied, dots } of [
  { copied: 1, dots: true },
  { copied: 4, dots: false },
  { copied: 4, dots: true },
  { copied: 0, dots: true },
]) {
  test(`the interaction has the numeric gradient: ${copied} copied, ${dots ? "" : "no "}dots`, (t) => {
    const stream = new RandomStream(3, purposes.faults);
    const x = randomTensor(kernels, stream, [3, 4, 5]);
    const width = copied * 5 + (dots ? 6 : 0);
    const dOut = randomTensor(kernels, stream, [3, width]);
    const out = kernels.tensor([3, width]);
    const dX = kernels.tensor([3, 4, 5]);
    kernels.dInteract(dX, dOut, x, copied, dots);
    isGradient(t, "dX", x, valuesOf(dX), () => {
      kernels.interact(out, x, copied, dots);
      return weighted(out, dOut);
    });
  });
}

for (const dropout of [0, 0.4]) {
  test(`an MLP has the gradients of its output, dropout ${dropout}`, (t) => {
    blockHasGradients(t, [[5]], (graph, [x]) => {
      return mlp(graph, x, { name: "top", widths: [6, 4, 2], dropout });
    });
  });
}

test("a linear layer without a bias, over a sample's rows, has its output's gradients", (t) => {
  blockHasGradients(t, [[3, 5]], (graph, [x]) => {
    return linear(graph, x, { name: "own", outputs: 4, bias: false, relu: true });
  });
});

test("a shared product of vectors has the gradients of its output", (t) => {
  blockHasGradients(t, [[3, 4]], (graph, [x]) => {
    return fieldLinear(graph, x, { name: "own", vectors: 5 });
  });
});

test("dot products have the gradients of both sides, even if both are one value", (t) => {
  blockHasGradients(
    t,
    [
      [3, 4],
      [5, 4],
    ],
    (graph, [a, b]) => dotProducts(graph, a, b),
  );
  blockHasGradients(t, [[3, 4]], (graph, [x]) => dotProducts(graph, x, x));
});

test("layer normalisation has the gradients of its output", (t) => {
  blockHasGradients(t, [[3, 6]], (graph, [x]) => layerNorm(graph, x, { name: "own" }));
});

test("elementwise products and logistic functions have the gradients of their inputs", (t) => {
  blockHasGradients(t, [[3], [3]], (graph, [a, b]) => {
    return mul(graph, sigmoid(graph, mul(graph, a, b)), a);
  });
});

test("columns of vectors, sums and a bias have the gradients of their inputs", (t) => {
  blockHasGradients(t, [[3, 4]], (graph, [x]) => {
    const some = slice(graph, x, { first: 1, count: 2 });
    return sum(
      graph,
      sumOfVectors(graph, some),
      sumOfVectors(graph, slice(graph, x, { first: 0, count: 2 })),
    );
  });
  blockHasGradients(t, [[3, 1]], (graph, [x]) => bias(graph, sumOfVectors(graph, x), "own"));
});

for (const [relu, dropout] of [
  [false, 0],
  [true, 0.3],
] as const) {
  test(`batch normalisation has the gradients of its output, ReLU ${relu}, dropout ${dropout}`, (t) => {
    blockHasGradients(t, [[4]], (graph, [x]) =>
      batchNorm(graph, x, { name: "own", relu, dropout }),
    );
  });
}

test("a factorisation machine has the gradients of its vectors", (t) => {
  blockHasGradients(t, [[5, 3]], (graph, [x]) => factorisationMachine(graph, x));
});

test("cross layers have the gradients of their input and of their weights", (t) => {
  for (const rank of [undefined, 2]) {
    for (const hasGates of [false, true]) {
      const options = { name: "own", layers: 2, rank, hasGates };
      blockHasGradients(t, [[4]], (graph, [x]) => crossLayers(graph, x, options));
    }
  }
});

test("differences and repeated vectors have the gradients of their inputs", (t) => {
  blockHasGradients(t, [[3, 4], [4]], (graph, [x, y]) => {
    return sub(graph, x, repeat(graph, y, 3));
  });
});

for (const softmax of [false, true]) {
  test(`target attention has the gradients of target, ids and layers, softmax ${softmax}`, (t) => {
    blockHasGradients(t, [[4], [3, 4]], (graph, [target, vectors]) => {
      // Lookup 5: samples of up to three ids, and some without.
      return targetAttention(
        graph,
        target,
        { vectors, lookup: 5 },
        { name: "own", hidden: [5], softmax },
      );
    });
  });
}

test("a sum has the gradients of both sides", (t) => {
  blockHasGradients(t, [[3], [3]], (graph, [a, b]) => sum(graph, sum(graph, a, b), a));
});

test("a value that three blocks read has the sum of their gradients", (t) => {
  blockHasGradients(t, [[4], [3]], (graph, [x, y]) => {
    const a = linear(graph, x, { name: "a", outputs: 3, relu: true });
    const b = linear(graph, x, { name: "b", outputs: 2 });
    const values = [a, y, x, b].map((value, i) => ({ value, column: [0, 3, 6, 10][i] ?? 0 }));
    return sideBySide(graph, values, { columns: 12, hasLookups: false });
  });
});

test("dropout drops units at its rate, and keeps the mean", (t) => {
  const x = kernels.tensor([1000, 20]);
  kernels.fill(x, 1);
  kernels.dropout(x, keyOf(1), purposes.dropout, 0, 0, 0.3);
  const values = [...valuesOf(x)];
  const dropped = values.filter((value) => value === 0).length / values.length;
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  t.true(Math.abs(dropped - 0.3) < 0.02, `${dropped} dropped`);
  t.true(Math.abs(mean - 1) < 0.02, `mean ${mean}`);
});

test("the units that dropout drops depend on the sample's position, not on the call", (t) => {
  const [whole, half] = [kernels.tensor([8, 5]), kernels.tensor([4, 5])];
  kernels.fill(whole, 1);
  kernels.fill(half, 1);
  kernels.dropout(whole, keyOf(9), purposes.dropout + 1, 2, 0, 0.5);
  kernels.dropout(half, keyOf(9), purposes.dropout + 1, 2, 4, 0.5);
  t.deepEqual([...valuesOf(half)], [...valuesOf(whole)].slice(20));
});
