// Slices and concatenations of columns, sums over vectors or columns, and repetition.
//
// B = samples, F = vectors, D = columns of each.

import type { GraphBuilder, Memory, Pass, Value } from "../graph/graph.ts";
import { checkShapes } from "../graph/graph.ts";
import { slicedColumns, summed, withAxis } from "../graph/translation.ts";

/** Slices columns first .. first+count-1 of each vector of x (F,D). Returns (F, count). */
export function slice(
  graph: GraphBuilder,
  x: Value,
  { first, count }: { readonly first: number; readonly count: number },
): Value {
  const [vectors = 0, dim = 0] = x.shape;
  const fit = x.shape.length === 2 && first >= 0 && first + count <= dim;
  checkShapes(fit, `there are vectors with columns ${first} to ${first + count - 1}`, x);
  return graph.add({
    inputs: [x],
    shape: [vectors, count],
    elements: 2 * vectors * count,
    translate: (to) => slicedColumns(to, to.x(0), first, count),
    start: (memory) => startColumns(memory, { vectors, dim, first, count }),
  });
}

function startColumns(
  memory: Memory,
  own: { vectors: number; dim: number; first: number; count: number },
) {
  const { kernels } = memory;
  const { vectors, dim, first, count } = own;
  return {
    forward({ samples }: Pass): void {
      const x = kernels.reshape(memory.x(0, samples), [samples * vectors, dim]);
      const out = kernels.reshape(memory.out(samples), [samples * vectors, count]);
      kernels.copyColumns(out, 0, x, first, count);
    },

    backward({ samples }: Pass): void {
      const to = memory.dX(0, samples);
      if (to === undefined) return;
      const dOut = kernels.reshape(memory.dOut(samples), [samples * vectors, count]);
      kernels.fill(to, 0);
      const dX = kernels.reshape(to, [samples * vectors, dim]);
      kernels.copyColumns(dX, first, dOut, 0, count);
    },
  };
}

/** Concatenates values (F,·) along the columns; all have F vectors. Returns (F, sum of columns). */
export function concatColumns(graph: GraphBuilder, values: readonly Value[]): Value {
  const widths = values.map(({ shape }) => shape[1] ?? 0);
  const vectors = values[0]?.shape[0] ?? 0;
  const fit = values.every(({ shape }) => shape.length === 2 && shape[0] === vectors);
  checkShapes(fit, "all values have as many vectors", ...values);
  const columns = widths.reduce((sum, width) => sum + width, 0);
  return graph.add({
    inputs: values,
    shape: [vectors, columns],
    elements: 2 * vectors * columns,
    translate: (to) =>
      to.op(
        "Concat",
        values.map((_, i) => to.x(i)),
        { axis: 2 },
      ),
    start: (memory) => startBeside(memory, vectors, columns, widths),
  });
}

function startBeside(memory: Memory, vectors: number, columns: number, widths: readonly number[]) {
  const { kernels } = memory;
  const firsts = widths.map((_, i) => widths.slice(0, i).reduce((sum, width) => sum + width, 0));
  return {
    forward({ samples }: Pass): void {
      const out = kernels.reshape(memory.out(samples), [samples * vectors, columns]);
      for (const [i, width] of widths.entries()) {
        const x = kernels.reshape(memory.x(i, samples), [samples * vectors, width]);
        kernels.copyColumns(out, firsts[i] ?? 0, x, 0, width);
      }
    },

    backward({ samples }: Pass): void {
      const dOut = kernels.reshape(memory.dOut(samples), [samples * vectors, columns]);
      for (const [i, width] of widths.entries()) {
        const to = memory.dX(i, samples);
        if (to === undefined) continue;
        const dX = kernels.reshape(to, [samples * vectors, width]);
        kernels.copyColumns(dX, 0, dOut, firsts[i] ?? 0, width);
      }
    },
  };
}

/** Sums the columns of each vector of x (F,D), in ascending order. Returns (F). */
export function sumOfColumns(graph: GraphBuilder, x: Value): Value {
  const [vectors = 0, dim = 0] = x.shape;
  checkShapes(x.shape.length === 2, "there are vectors to sum", x);
  return graph.add({
    inputs: [x],
    shape: [vectors],
    products: vectors * dim,
    elements: vectors * (dim + 1),
    translate: (to) => summed(to, to.x(0), 2),
    start: (memory) => startSumOfColumns(memory, vectors, dim),
  });
}

function startSumOfColumns(memory: Memory, vectors: number, dim: number) {
  const { kernels, samplesMax } = memory;
  const [one, ones] = [kernels.tensor([1, dim]), kernels.tensor([samplesMax, 1, dim])];
  kernels.fill(one, 1);
  kernels.fill(ones, 1);
  return {
    forward({ samples }: Pass): void {
      const out = kernels.reshape(memory.out(samples), [samples, 1, vectors]);
      kernels.products(out, one, memory.x(0, samples), "abT");
    },

    backward({ samples }: Pass): void {
      const dX = memory.dX(0, samples);
      if (dX === undefined) return;
      const dOut = kernels.reshape(memory.dOut(samples), [samples, 1, vectors]);
      kernels.products(dX, dOut, kernels.part(ones, 0, samples), "aTb");
    },
  };
}

/** Repeats each element of x (F) over `count` columns. Returns (F, count). */
export function repeatColumns(graph: GraphBuilder, x: Value, count: number): Value {
  const [vectors = 0] = x.shape;
  checkShapes(x.shape.length === 1, "there is one element for each vector", x);
  return graph.add({
    inputs: [x],
    shape: [vectors, count],
    products: vectors * count,
    elements: vectors * (count + 1),
    translate: (to) => to.op("Expand", [withAxis(to, to.x(0), 2), to.integers([1, 1, count])]),
    start: (memory) => startRepeated(memory, vectors, count),
  });
}

function startRepeated(memory: Memory, vectors: number, count: number) {
  const { kernels, samplesMax } = memory;
  const [one, ones] = [kernels.tensor([1, count]), kernels.tensor([samplesMax, 1, count])];
  kernels.fill(one, 1);
  kernels.fill(ones, 1);
  return {
    forward({ samples }: Pass): void {
      const x = kernels.reshape(memory.x(0, samples), [samples, 1, vectors]);
      kernels.products(memory.out(samples), x, kernels.part(ones, 0, samples), "aTb");
    },

    backward({ samples }: Pass): void {
      const to = memory.dX(0, samples);
      if (to === undefined) return;
      const dX = kernels.reshape(to, [samples, 1, vectors]);
      kernels.products(dX, one, memory.dOut(samples), "abT");
    },
  };
}

/** Sums the vectors of x (F,D), in ascending order. Returns (D). */
export function sumOfVectors(graph: GraphBuilder, x: Value): Value {
  const [vectors = 0, dim = 0] = x.shape;
  checkShapes(x.shape.length === 2, "there are vectors to sum", x);
  return graph.add({
    inputs: [x],
    shape: [dim],
    products: vectors * dim,
    elements: (vectors + 1) * dim,
    translate: (to) => summed(to, to.x(0), 1),
    start: (memory) => startSum(memory, vectors, dim),
  });
}

function startSum(memory: Memory, vectors: number, dim: number) {
  const { kernels } = memory;
  const ones = kernels.tensor([1, vectors]);
  kernels.fill(ones, 1);
  return {
    forward({ samples }: Pass): void {
      const out = kernels.reshape(memory.out(samples), [samples, 1, dim]);
      kernels.products(out, ones, memory.x(0, samples), "ab");
    },

    backward({ samples }: Pass): void {
      const dX = memory.dX(0, samples);
      if (dX === undefined) return;
      const dOut = kernels.reshape(memory.dOut(samples), [samples, 1, dim]);
      kernels.products(dX, ones, dOut, "aTb");
    },
  };
}

/** Repeats x (D) as `count` equal vectors. Returns (count, D). */
export function repeat(graph: GraphBuilder, x: Value, count: number): Value {
  const [dim = 0] = x.shape;
  checkShapes(x.shape.length === 1, "there is one vector to repeat", x);
  return graph.add({
    inputs: [x],
    shape: [count, dim],
    products: count * dim,
    elements: (count + 1) * dim,
    translate: (to) => to.op("Expand", [withAxis(to, to.x(0), 1), to.integers([1, count, 1])]),
    start: (memory) => startRepeatedVector(memory, count, dim),
  });
}

function startRepeatedVector(memory: Memory, count: number, dim: number) {
  const { kernels } = memory;
  const ones = kernels.tensor([count, 1]);
  kernels.fill(ones, 1);
  return {
    forward({ samples }: Pass): void {
      const x = kernels.reshape(memory.x(0, samples), [samples, 1, dim]);
      kernels.products(memory.out(samples), ones, x, "ab");
    },

    backward({ samples }: Pass): void {
      const to = memory.dX(0, samples);
      if (to === undefined) return;
      const dX = kernels.reshape(to, [samples, 1, dim]);
      kernels.products(dX, ones, memory.dOut(samples), "aTb");
    },
  };
}
