// Converts tables to arguments of the addon: typed arrays aligned to cache lines, and numbers, in
// the order of native/bindings/call.h.

import type { Addon } from "../../ports/addon.ts";
import { lookupsFrom, type Rows } from "../contract/kernels.ts";
import type { Precision } from "../contract/precision.ts";
import { valuesOf as data } from "../reference/memory.ts";

/**
 * Zeroed elements aligned to a cache line, so that a row never spans one line more than needed. The
 * memory is on large pages if the system provides them, as the processor's prefetcher stops at a
 * page's end.
 */
export function aligned(addon: Addon, length: number): Float32Array {
  const room = new Float32Array(length + 15);
  addon.useLargePages!(room);
  const first = Number(addon.skewOf!(room));
  return room.subarray(first, first + length);
}

/** The order of `Precision` in native/kernels.h. */
export const precisions: readonly Precision[] = ["float32", "float16", "bfloat16", "int8"];

const unnamed = new Int32Array();

/** Cached argument lists by list of tables, as every step needs the same lists. */
const lists = new WeakMap<readonly Rows[], unknown[]>();

/** The result of `listTables`, cached per list of tables. */
export function listed(tables: readonly Rows[]): unknown[] {
  const known = lists.get(tables) ?? listTables(tables);
  lists.set(tables, known);
  return known;
}

/** The addon's arguments for tables: lists of arrays, and twelve numbers for each table. */
export function listTables(tables: readonly Rows[]): unknown[] {
  const numbers = new Int32Array(12 * tables.length);
  tables.forEach(({ rows, dim, state, pooling, rowBlocks, blockRows, precision, ...tile }, t) => {
    const isMean = pooling === "mean" ? 1 : 0;
    const code = precisions.indexOf(precision);
    const shape = [rows, dim, state.shape[1] ?? 0, isMean, rowBlocks, code];
    const { firstRow, firstColumn, tableDim } = tile;
    const own = [blockRows, firstRow, firstColumn, tableDim];
    const isNext = t > 0 && tile.touched === tables[t - 1]?.touched;
    const next = [isNext ? 0 : lookupsFrom(tables, t), tile.averaged ? 1 : 0];
    numbers.set([...shape, ...own, ...next], 12 * t);
  });
  const weights = tables.map((rows) =>
    rows.precision === "float32" ? data(rows.weights) : rows.codes,
  );
  const states = tables.map((rows) => data(rows.state));
  const touched = tables.map((rows) => rows.touched);
  const rest = tables.flatMap(({ exponents, names }) => [exponents, names ?? unnamed]);
  return [weights, states, touched, rest, numbers];
}
