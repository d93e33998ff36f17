// Argument checks of the kernels that only move memory. They are written by hand, because each has
// a rule of its own, and a step calls them more often than any other kernel.

import assert from "node:assert/strict";
import { type Kernels, quantumColumns, rowsMax } from "../contract/kernels.ts";
import { sizeOf } from "../reference/memory.ts";
import { columns, holds, isPowerOfTwo, size, within } from "./asserts.ts";
import { assertNames } from "./kinds.ts";

/** The kernels that only move memory, with checked arguments; the table has `copyColumns`. */
export function checkMemory(inner: Kernels) {
  return {
    view(buffer, byteOffset, shape) {
      assert(byteOffset % 4 === 0, `Expected a multiple of 4 bytes, got ${byteOffset}`);
      within("a view", byteOffset, sizeOf(shape) * 4, buffer.byteLength);
      return inner.view(buffer, byteOffset, shape);
    },
    part(t, first, count) {
      within("a part", first, count, t.shape[0] ?? 0);
      return inner.part(t, first, count);
    },
    reshape(t, shape, first = 0) {
      within("a new shape", first, sizeOf(shape), size(t));
      return inner.reshape(t, shape, first);
    },
    write(t, values) {
      holds("t", t, values.length);
      inner.write(t, values);
    },
    copy(out, from) {
      holds("out", out, size(from));
      inner.copy(out, from);
    },
    scaleColumns(t, first, count, factor) {
      if (t.shape[0] !== 0) within("columns of t", first, count, columns("t", t));
      inner.scaleColumns(t, first, count, factor);
    },
    rows(spec) {
      tileOf(spec);
      assertNames(spec);
      return inner.rows(spec);
    },
    readRows(rows, first, count) {
      within("rows", first, count, rows.rows);
      return inner.readRows(rows, first, count);
    },
    writeRows(rows, first, weights) {
      within("rows", first, weights.length / rows.dim, rows.rows);
      inner.writeRows(rows, first, weights);
    },
  } satisfies Partial<Kernels>;
}

/** Asserts that a tile is within its table and has whole quanta of columns. */
function tileOf(spec: Parameters<Kernels["rows"]>[0]): void {
  const { rows, dim, rowBlocks, firstRow = 0, firstColumn = 0, tableDim = dim } = spec;
  const { blockRows = Math.ceil(rows / rowBlocks) } = spec;
  assert(isPowerOfTwo(rowBlocks), `Expected a power of two of row blocks, got ${rowBlocks}`);
  assert(rows <= rowsMax, `Expected at most ${rowsMax} rows, got ${rows}`);
  within("a tile's rows", firstRow, rows, rowsMax);
  within("rows of a block", 0, blockRows, rowsMax);
  const blocks = `${rowBlocks} blocks of ${blockRows} rows`;
  assert(rows <= rowBlocks * blockRows, `Expected at most ${blocks}, got ${rows}`);
  within("a tile's columns", firstColumn, dim, tableDim);
  const last = firstColumn + dim;
  const whole = firstColumn % quantumColumns === 0;
  assert(
    whole && (last === tableDim || last % quantumColumns === 0),
    `Expected a tile of whole quanta of ${quantumColumns} columns, got ${firstColumn}..${last}`,
  );
}
