// Values and vectors of lookups, side by side in one row of columns.

import type { GraphBuilder, Memory, Pass, Value } from "../graph/graph.ts";
import { checkShapes, reshaped, sizeOf } from "../graph/graph.ts";
import type { Name, Translation } from "../graph/translation.ts";

/** A value and the first column that it takes. */
export interface ValueAt {
  readonly value: Value;
  readonly column: number;
}

/**
 * (columns): each value from its column on. Where `hasLookups`, vectors of lookups that the graph
 * places here are written by the step itself, so no block copies them.
 */
export function sideBySide(
  graph: GraphBuilder,
  values: readonly ValueAt[],
  options: { readonly columns: number; readonly hasLookups: boolean },
): Value {
  return graph.add({
    inputs: values.map(({ value }) => value),
    shape: [options.columns],
    hasLookups: options.hasLookups,
    keepsGradient: true,
    translate: (to) => translateSideBySide(to, values),
    start: (memory) => startSideBySide(memory, values),
  });
}

/**
 * Values (·,D) with their vectors behind each other, + other (F,D). As the sum of `other` and of
 * what `behindEachOther` makes of them, without a copy of them.
 */
export function sumBehindEachOther(
  graph: GraphBuilder,
  values: readonly Value[],
  other: Value,
): Value {
  const columns = values.reduce((sum, value) => sum + sizeOf(value), 0);
  checkShapes(columns === sizeOf(other), "values behind each other are as long", ...values, other);
  return graph.add({
    inputs: [...values, other],
    shape: other.shape,
    keepsGradient: true,
    passes: [values.length],
    elements: 3 * columns,
    translate: (to) => {
      const placed = translateSideBySide(to, placedBehind(values));
      const shape = to.integers([-1, ...other.shape]);
      return to.op("Add", [to.op("Reshape", [placed, shape]), to.x(values.length)]);
    },
    start: (memory) => startSum(memory, placedBehind(values)),
  });
}

function startSum(memory: Memory, values: readonly ValueAt[]) {
  const { kernels } = memory;
  const { backward } = startSideBySide(memory, values);
  return {
    forward({ samples }: Pass): void {
      const own = values.map((_, input) => memory.x(input, samples));
      kernels.addBeside(memory.out(samples), own, memory.x(values.length, samples));
    },

    backward(pass: Pass): void {
      backward(pass);
      const dX = memory.dX(values.length, pass.samples);
      if (dX !== undefined) kernels.copy(dX, memory.dOut(pass.samples));
    },
  };
}

/** Values behind each other in one row of columns; one alone as it is. */
export function behindEachOther(graph: GraphBuilder, values: readonly Value[]): Value {
  const [only, ...others] = values;
  if (only !== undefined && others.length === 0) return reshaped(only, [sizeOf(only)]);
  const columns = values.reduce((sum, value) => sum + sizeOf(value), 0);
  return sideBySide(graph, placedBehind(values), { columns, hasLookups: false });
}

function placedBehind(values: readonly Value[]): ValueAt[] {
  let column = 0;
  return values.map((value) => {
    column += sizeOf(value);
    return { value, column: column - sizeOf(value) };
  });
}

function translateSideBySide(to: Translation, values: readonly ValueAt[]): Name {
  const own = values.map(({ value, column }, i) => {
    return { name: to.op("Reshape", [to.x(i), to.integers([-1, sizeOf(value)])]), column };
  });
  const all = [...own, ...to.lookups].sort((a, b) => a.column - b.column);
  return to.op(
    "Concat",
    all.map(({ name }) => name),
    { axis: 1 },
  );
}

function startSideBySide(memory: Memory, values: readonly ValueAt[]) {
  const { kernels } = memory;
  return {
    forward({ samples }: Pass): void {
      for (const [input, { value, column }] of values.entries()) {
        const size = sizeOf(value);
        const x = kernels.reshape(memory.x(input, samples), [samples, size]);
        kernels.copyColumns(memory.out(samples), column, x, 0, size);
      }
    },

    backward({ samples }: Pass): void {
      for (const [input, { value, column }] of values.entries()) {
        const to = memory.dX(input, samples);
        if (to === undefined) continue;
        const size = sizeOf(value);
        const dX = kernels.reshape(to, [samples, size]);
        kernels.copyColumns(dX, 0, memory.dOut(samples), column, size);
      }
    },
  };
}
