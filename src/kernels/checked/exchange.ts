// Shape checks of the kernels of the exchange (see checked.ts).

import assert from "node:assert/strict";
import type { Kernels, PackedAt, PooledPart, Tensor } from "../contract/kernels.ts";
import { type Precision, packedBytes } from "../contract/precision.ts";
import { columns, within } from "./shapes.ts";

type ExchangeNames =
  | "rowMeans"
  | "rowTrust"
  | "foldPooled"
  | "shareColumns"
  | "expandColumns"
  | "dExpandColumns"
  | "packColumns"
  | "unpackColumns";

/** The kernels of the exchange, with the shape of every argument asserted. */
export function checkExchange(inner: Kernels): Pick<Kernels, ExchangeNames> {
  return {
    rowMeans(squares, quanta, dim) {
      runs(squares, quanta);
      return inner.rowMeans(squares, quanta, dim);
    },
    rowTrust(norms, quanta) {
      runs(
        norms,
        quanta.map((count) => 2 * count),
      );
      return inner.rowTrust(norms, quanta);
    },
    foldPooled(out, outFirst, parts, blocks, count, lengths, precision) {
      const samples = out.shape[0] ?? 0;
      assert(isPowerOfTwo(blocks), `Expected a power of two of row blocks, got ${blocks}`);
      inOrder(parts, blocks);
      if (samples === 0) return;
      within("columns of out", outFirst, count, columns("out", out));
      for (const { from, first } of parts) {
        assert.equal(from.shape[0], samples, "Expected as many samples in every part");
        within("columns of a part", first, count, columns("a part", from));
      }
      if (lengths !== undefined) assert.equal(lengths.length, samples, "Expected B lengths");
      inner.foldPooled(out, outFirst, parts, blocks, count, lengths, precision);
    },
    shareColumns(out, outFirst, from, fromFirst, count, lengths) {
      assert.equal(out.shape[0], from.shape[0], "Expected as many samples in both");
      assert.equal(out.shape[0], lengths.length, "Expected B lengths");
      if (lengths.length === 0) return;
      within("columns of out", outFirst, count, columns("out", out));
      within("columns of from", fromFirst, count, columns("from", from));
      inner.shareColumns(out, outFirst, from, fromFirst, count, lengths);
    },
    expandColumns(out, outFirst, from, fromFirst, count, inverse, used) {
      assert.equal(out.shape[0], inverse.length, "Expected the distinct list of each sample");
      if (inverse.length === 0) return;
      within("columns of out", outFirst, count, columns("out", out));
      within("columns of from", fromFirst, count, columns("from", from));
      listed(inverse, from);
      hasColumns(used, from, count);
      inner.expandColumns(out, outFirst, from, fromFirst, count, inverse, used);
    },
    dExpandColumns(dFrom, fromFirst, dOut, outFirst, count, inverse, used) {
      assert.equal(dOut.shape[0], inverse.length, "Expected the distinct list of each sample");
      if (inverse.length === 0) return;
      within("columns of dFrom", fromFirst, count, columns("dFrom", dFrom));
      within("columns of dOut", outFirst, count, columns("dOut", dOut));
      listed(inverse, dFrom);
      hasColumns(used, dFrom, count);
      inner.dExpandColumns(dFrom, fromFirst, dOut, outFirst, count, inverse, used);
    },
    packColumns(to, from, fromFirst, count, precision) {
      holdsPacked(to, from, count, precision);
      if (from.shape[0] === 0) return;
      within("columns of from", fromFirst, count, columns("from", from));
      inner.packColumns(to, from, fromFirst, count, precision);
    },
    unpackColumns(out, outFirst, from, count, precision) {
      holdsPacked(from, out, count, precision);
      if (out.shape[0] === 0) return;
      within("columns of out", outFirst, count, columns("out", out));
      inner.unpackColumns(out, outFirst, from, count, precision);
    },
  };
}

function isPowerOfTwo(count: number): boolean {
  return count >= 1 && Number.isInteger(Math.log2(count));
}

/** Asserts that every range of quanta has the same number of rows. */
function runs(sums: readonly ArrayLike<number>[], widths: readonly number[]): void {
  assert.equal(sums.length, widths.length, "Expected a count of quanta for every run");
  assert(sums.length > 0, "Expected at least one run of quanta");
  const rows = sums[0]!.length / widths[0]!;
  const alike = Number.isInteger(rows) && sums.every((run, i) => run.length === rows * widths[i]!);
  assert(alike, `Expected whole rows of quanta, as many in every run as the first has, ${rows}`);
}

/** Asserts that parts are aligned runs of blocks below `blocks`, ascending and disjoint. */
function inOrder(parts: readonly PooledPart[], blocks: number): void {
  let end = 0;
  for (const { tree } of parts) {
    const { first, count } = tree;
    const aligned = isPowerOfTwo(count) && first % count === 0;
    assert(
      aligned && first >= end && first + count <= blocks,
      `Expected an aligned run of blocks in ${end}..${blocks}, got ${count} from ${first}`,
    );
    end = first + count;
  }
}

/** Asserts room for the packed columns of a tensor (B, ·). */
function holdsPacked(at: PackedAt, t: Tensor, count: number, precision: Precision): void {
  const bytes = packedBytes(t.shape[0] ?? 0, count, precision);
  assert(at.byteOffset % 4 === 0, `Expected a multiple of 4 bytes, got ${at.byteOffset}`);
  within("packed columns", at.byteOffset, bytes, at.buffer.byteLength);
}

/** Asserts that `inverse` maps each sample to one of the distinct lists of t (U,·). */
function listed(inverse: Int32Array, t: Tensor): void {
  const lists = t.shape[0] ?? 0;
  // A plain loop, as a function call per sample would take longer than the copy of its row.
  let good = 0;
  while (good < inverse.length && inverse[good]! >= 0 && inverse[good]! < lists) good++;
  const isGood = good === inverse.length;
  assert(isGood, `Expected a list of 0..${lists - 1} for sample ${good}, got ${inverse[good]}`);
}

/** Asserts that `used` has, for each list of t (U,·), a number of columns up to `count`. */
function hasColumns(used: Int32Array | undefined, t: Tensor, count: number): void {
  if (used === undefined) return;
  assert.equal(used.length, t.shape[0], "Expected the columns of each distinct list");
  const bad = used.findIndex((columns) => columns < 0 || columns > count);
  assert(bad < 0, `Expected 0..${count} columns of list ${bad}, got ${used[bad]}`);
}
