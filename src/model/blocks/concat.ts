// Concatenates values and vectors of lookups into one row of columns. A value with a row for each
// distinct list (IKJT: src/data/sessions/ikjt.ts) is expanded: each sample gets the row of its
// list. In the backward pass, a list gets the sum of its samples' gradients, in the order of the
// samples (RecD: Zhao et al., MLSys 2023, sections 4.2 and 5). Of a sequence, only positions that
// have an id are copied and summed: padding positions are zeros, and their gradients are never
// read.

import type { GraphBuilder, GroupPass, Memory, Pass, Value } from "../graph/graph.ts";
import { checkShapes, groupPassOf, passOn, reshape, sizeOf } from "../graph/graph.ts";
import type { Name, Translation } from "../graph/translation.ts";

/** A value and its first column in the concatenation. */
export interface ValueAt {
  readonly value: Value;
  readonly column: number;
  /**
   * Of a sequence, which has one vector for each position: the lookups of its positions. Padding
   * positions are zeros.
   */
  readonly sequence?: { readonly lookup: number; readonly positions: number } | undefined;
}

/**
 * Concatenates values, each from its column on, with a row for each sample. Where `hasLookups`, the
 * step writes the vectors of lookups straight into this output, so that no block copies them.
 * Returns (columns).
 */
export function sideBySide(
  graph: GraphBuilder,
  values: readonly ValueAt[],
  options: { readonly columns: number; readonly hasLookups: boolean },
): Value {
  return graph.add({
    inputs: values.map(({ value }) => value),
    axis: 0,
    shape: [options.columns],
    hasLookups: options.hasLookups,
    keepsGradient: true,
    translate: (to) => translateSideBySide(to, values),
    start: (memory) => startSideBySide(memory, values),
  });
}

/**
 * Concatenates the vectors of values (·,D) and adds `other` (F,D). Equals the sum of `other` and of
 * `concat(values)`, without a buffer for the concatenation.
 */
export function concatAdd(graph: GraphBuilder, values: readonly Value[], other: Value): Value {
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

/** Flattens and concatenates values; one value alone is only reshaped. Returns (columns). */
export function concat(graph: GraphBuilder, values: readonly Value[]): Value {
  const [only, ...others] = values;
  if (only?.axis === 0 && others.length === 0) return reshape(only, [sizeOf(only)]);
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
    forward(pass: Pass): void {
      const out = memory.out(pass.samples);
      for (const [input, own] of values.entries()) {
        const { value, column } = own;
        const size = sizeOf(value);
        const { samples: rows } = passOn(pass, value.axis);
        const x = kernels.reshape(memory.x(input, rows), [rows, size]);
        if (value.axis === 0) kernels.copyColumns(out, column, x, 0, size);
        else {
          const group = groupPassOf(pass, value.axis);
          kernels.expandColumns(out, column, x, 0, size, group.inverse, usedOf(own, group));
        }
      }
    },

    backward(pass: Pass): void {
      const dOut = memory.dOut(pass.samples);
      for (const [input, own] of values.entries()) {
        const { value, column } = own;
        const size = sizeOf(value);
        const { samples: rows } = passOn(pass, value.axis);
        const to = memory.dX(input, rows);
        if (to === undefined) continue;
        const dX = kernels.reshape(to, [rows, size]);
        if (value.axis === 0) kernels.copyColumns(dX, 0, dOut, column, size);
        else {
          const group = groupPassOf(pass, value.axis);
          kernels.dExpandColumns(dX, 0, dOut, column, size, group.inverse, usedOf(own, group));
        }
      }
    },
  };
}

/**
 * The number of columns that belong to ids, for each distinct list of a sequence. Returns (rows).
 */
function usedOf({ value, sequence }: ValueAt, pass: GroupPass): Int32Array | undefined {
  if (sequence === undefined) return undefined;
  const { lookup, positions } = sequence;
  const columns = sizeOf(value) / positions;
  return Int32Array.from({ length: pass.samples }, (_, row) => {
    let ids = 0;
    while (ids < positions && pass.lengthAt(lookup + ids, row) > 0) ids++;
    return columns * ids;
  });
}
