// Kernels with checked arguments: the preconditions on shapes and lengths are asserted at every
// call. The checks read no elements, so their cost does not grow with the batch, except for the
// check of completed sums, which exist only where columns are split. Checks that run for every
// table or layer build their message only on failure, so that steps produce no garbage.

import assert from "node:assert/strict";
import {
  type Bags,
  type Kernels,
  lookupsFrom,
  quantumColumns,
  type RowRule,
  type Rows,
  rowsMax,
  stateWidth,
  type Tensor,
  takesMean,
  takesTrust,
} from "../contract/kernels.ts";
import { type Slices, type Subtree, subtreesOf } from "../contract/slices.ts";
import { sizeOf } from "../reference/memory.ts";
import { checkBlocks } from "./blocks.ts";
import { checkCache, checkRecords } from "./cache.ts";
import { checkExchange } from "./exchange.ts";
import { addends, columns, covers, holds, layer, matrix, size, within } from "./shapes.ts";
import { completes } from "./sums.ts";

/** `inner` with the shape of every argument asserted. Ids are checked where frames are received. */
export function checkKernels(inner: Kernels): Kernels {
  return {
    ...inner,
    ...checkMemory(inner),
    ...checkDense(inner),
    ...checkBlocks(inner),
    ...checkBags(inner),
    ...checkExchange(inner),
    ...checkFlat(inner),
    ...checkCache(inner),
    ...checkRecords(inner),
  };
}

function checkMemory(
  inner: Kernels,
): Pick<
  Kernels,
  | "view"
  | "part"
  | "reshape"
  | "write"
  | "copy"
  | "copyColumns"
  | "scaleColumns"
  | "rows"
  | "readRows"
  | "writeRows"
> {
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
    copyColumns(out, outFirst, from, fromFirst, count) {
      assert.equal(out.shape[0], from.shape[0], "Expected as many samples in both");
      if (out.shape[0] === 0) return;
      within("columns of out", outFirst, count, columns("out", out));
      within("columns of from", fromFirst, count, columns("from", from));
      inner.copyColumns(out, outFirst, from, fromFirst, count);
    },
    scaleColumns(t, first, count, factor) {
      if (t.shape[0] !== 0) within("columns of t", first, count, columns("t", t));
      inner.scaleColumns(t, first, count, factor);
    },
    rows(spec) {
      tileOf(spec);
      named(spec);
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
  };
}

/** Asserts that a tile is within its table and has whole quanta of columns. */
function tileOf(spec: Parameters<Kernels["rows"]>[0]): void {
  const { rows, dim, rowBlocks, firstRow = 0, firstColumn = 0, tableDim = dim } = spec;
  const { blockRows = Math.ceil(rows / rowBlocks) } = spec;
  const powerOfTwo = rowBlocks >= 1 && Number.isInteger(Math.log2(rowBlocks));
  assert(powerOfTwo, `Expected a power of two of row blocks, got ${rowBlocks}`);
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

/** Asserts that the slots of a cache have one row block, and an entry in `names` for each slot. */
function named(rows: Pick<Rows, "rows" | "rowBlocks"> & { readonly names?: Int32Array }): void {
  const { names, rowBlocks } = rows;
  if (names === undefined) return;
  assert(rowBlocks === 1, `Expected one row block of a cache's places, got ${rowBlocks}`);
  assert.equal(names.length, rows.rows, "Expected a name for each place");
}

type DenseNames =
  | "linear"
  | "linearPacked"
  | "dRelu"
  | "dLinearInput"
  | "dLinearWeight"
  | "dropout"
  | "interact"
  | "dInteract"
  | "loss";

function checkDense(inner: Kernels): Pick<Kernels, DenseNames> {
  return {
    linear(out, x, w, b, relu, precision) {
      layer(out, x, w, b);
      inner.linear(out, x, w, b, relu, precision);
    },
    linearPacked(out, x, packed, b, relu) {
      layer(out, x, packed, b);
      inner.linearPacked(out, x, packed, b, relu);
    },
    dRelu(d, out) {
      holds("d", d, size(out));
      inner.dRelu(d, out);
    },
    dLinearInput(dX, dOut, w, precision, plus = [], above) {
      const [[outputs, inputs], samples] = [matrix("w", w), dOut.shape[0] ?? 0];
      holds("dOut", dOut, samples * outputs);
      holds("dX", dX, samples * inputs);
      addends(plus, dX);
      if (above !== undefined) holds("above", above, samples * inputs);
      inner.dLinearInput(dX, dOut, w, precision, plus, above);
    },
    dLinearWeight(dW, dB, dOut, x, slices, precision) {
      const samples = dOut.shape[0] ?? 0;
      covers(slices, samples);
      const trees = subtreesOf(slices.first, slices.bounds.length - 1).length;
      assert(dW.length === trees && dB.length === trees, `Expected ${trees} subtrees`);
      const [outputs, inputs] = matrix("dW", dW[0]!);
      holds("dOut", dOut, samples * outputs);
      holds("x", x, samples * inputs);
      for (const d of dW) holds("dW", d, outputs * inputs);
      for (const d of dB) holds("dB", d, outputs);
      inner.dLinearWeight(dW, dB, dOut, x, slices, precision);
    },
    dropout(x, key, purpose, step, firstSample, rate) {
      assert(rate >= 0 && rate < 1, `Expected a rate in 0..1, 1 excluded, got ${rate}`);
      columns("x", x);
      inner.dropout(x, key, purpose, step, firstSample, rate);
    },
    interact(out, x, copied, dots) {
      holds("out", out, interactionSize(x, copied, dots));
      inner.interact(out, x, copied, dots);
    },
    dInteract(dX, dOut, x, copied, dots) {
      holds("dOut", dOut, interactionSize(x, copied, dots));
      holds("dX", dX, size(x));
      inner.dInteract(dX, dOut, x, copied, dots);
    },
    loss(losses, dLogits, logits, labels, terms, batchSize, slices, weights, labelled) {
      const [B, K] = matrix("logits", logits);
      covers(slices, B);
      holds("dLogits", dLogits, B * K);
      const [samples, L] = matrix("labels", labels);
      assert.equal(samples, B, "Expected labels of each sample");
      for (const { logit, target } of terms) {
        assert(logit < K, `Expected a column of ${K} logits, got ${logit}`);
        const columns = target.of === "label" ? L : K;
        assert(target.column < columns, `Expected a target in ${columns}, got ${target.column}`);
      }
      assert.equal(losses.length, slices.bounds.length - 1, "Expected one loss a slice");
      if (weights !== undefined) holds("weights", weights, B);
      if (labelled !== undefined) assert.equal(labelled.length, L, "Expected a count a label");
      inner.loss(losses, dLogits, logits, labels, terms, batchSize, slices, weights, labelled);
    },
  };
}

function interactionSize(x: Tensor, copied: number, dots: boolean): number {
  assert(x.shape.length === 3, `Expected x (B,F,D), got (${x.shape.join(",")})`);
  const [samples, features, dim] = [x.shape[0]!, x.shape[1]!, x.shape[2]!];
  within("copied features", 0, copied, features);
  return samples * (copied * dim + (dots ? (features * (features - 1)) / 2 : 0));
}

function checkBags(
  inner: Kernels,
): Pick<Kernels, "pool" | "updateRows" | "rowSquares" | "rowNorms" | "dRows" | "applyRows"> {
  const none = new Float32Array();
  return {
    pool(out, tables, bags, first, count, average) {
      bagsOf(tables, bags);
      within("samples", first, count, bags.samples);
      holds("out", out, count * columnsOf(tables));
      const isAveraged = average === undefined || tables.every(({ averaged }) => averaged);
      assert(isAveraged, "Expected rows that have a moving average");
      inner.pool(out, tables, bags, first, count, average);
    },
    updateRows(tables, bags, dPooled, slices, rules, completed) {
      update(tables, bags, dPooled, slices, rules);
      const count = completed?.length ?? tables.length;
      assert.equal(count, tables.length, "Expected completed sums of every table");
      for (let t = 0; t < tables.length; t += lookupsFrom(tables, t)) {
        completes(tables, rules[t]!, completed?.[t], bags, t);
      }
      return inner.updateRows(tables, bags, dPooled, slices, rules, completed);
    },
    rowSquares(tables, table, bags, dPooled, slices, rules) {
      update(tables, bags, dPooled, slices, rules);
      within("a table", table, 1, tables.length);
      return inner.rowSquares(tables, table, bags, dPooled, slices, rules);
    },
    rowNorms(tables, table, bags, dPooled, slices, rules, means) {
      update(tables, bags, dPooled, slices, rules);
      within("a table", table, 1, tables.length);
      const { kind } = rules[table]!;
      assert(takesTrust(kind), `Expected a rule that takes a trust ratio, got ${kind}`);
      if (takesMean(kind)) {
        completes(tables, rules[table]!, { means, trust: none }, bags, table);
      }
      return inner.rowNorms(tables, table, bags, dPooled, slices, rules, means);
    },
    dRows(dRows, counts, tables, table, bags, dPooled, slices) {
      bagsOf(tables, bags);
      covers(slices, bags.samples);
      holds("dPooled", dPooled, bags.samples * columnsOf(tables));
      within("a table", table, 1, tables.length);
      const trees = subtreesOf(slices.first, slices.bounds.length - 1).length;
      assert(dRows.length === trees && counts.length === trees, `Expected ${trees} subtrees`);
      const { rows, dim } = tables[table]!;
      for (const d of dRows) holds("dRows", d, rows * dim);
      for (const d of counts) holds("counts", d, rows);
      inner.dRows(dRows, counts, tables, table, bags, dPooled, slices);
    },
    applyRows(rows, dRows, counts, rule, whole) {
      holds("dRows", dRows, rows.rows * rows.dim);
      holds("counts", counts, rows.rows);
      holdsState(rows, rule);
      return inner.applyRows(rows, dRows, counts, rule, whole);
    },
  };
}

function columnsOf(tables: readonly Rows[]): number {
  let sum = 0;
  for (const rows of tables) sum += rows.dim;
  return sum;
}

function bagsOf(tables: readonly Rows[], bags: Bags): void {
  const { offsets, ids, weights } = bags;
  assert.equal(bags.tables, tables.length, "Expected bags for every table");
  for (const rows of tables) named(rows);
  assert.equal(offsets.length, bags.tables * bags.samples + 1, "Expected T*B+1 offsets");
  assert(offsets[0]! >= 0 && offsets.at(-1)! <= ids.length, "Expected offsets within the ids");
  const weighed = weights === undefined || weights.length >= offsets.at(-1)!;
  assert(weighed, "Expected a weight for every id");
}

function update(
  tables: readonly Rows[],
  bags: Bags,
  dPooled: Tensor,
  slices: Slices,
  rules: readonly RowRule[],
): void {
  bagsOf(tables, bags);
  covers(slices, bags.samples);
  const count = slices.bounds.length - 1;
  assert(slices.first === 0 && Number.isInteger(Math.log2(count)), "Expected the whole batch");
  holds("dPooled", dPooled, bags.samples * columnsOf(tables));
  assert.equal(rules.length, tables.length, "Expected a rule for every table");
  rules.forEach((rule, table) => {
    holdsState(tables[table]!, rule);
  });
}

type FlatNames =
  | "clipNorm"
  | "clipValues"
  | "average"
  | "swap"
  | "foldSubtrees"
  | "sgd"
  | "adagrad"
  | "momentum"
  | "adam"
  | "lamb";

/** Asserts the state's width: with a narrower state, the rule would write beyond the row. */
function holdsState(rows: Rows, rule: RowRule): void {
  const width = stateWidth(rule.kind, rows.dim, rows.averaged);
  const actual = rows.state.shape[1] ?? 0;
  if (rows.precision !== "float32" && rule.rounding === undefined) {
    assert.fail(`Expected a rounding for rows of ${rows.precision}`);
  }
  assert.equal(rule.average !== undefined, rows.averaged, "Expected an average in both, or none");
  if (actual >= width) return;
  assert.fail(`Expected ${width} state floats a row for ${rule.kind}, got ${actual}`);
}

function checkFlat(inner: Kernels): Pick<Kernels, FlatNames> {
  return {
    foldSubtrees(out, parts, trees, slices) {
      assert.equal(parts.length, trees.length, "Expected a part for every subtree");
      for (const part of parts) holds("a part", part, size(out));
      complete(trees, slices);
      inner.foldSubtrees(out, parts, trees, slices);
    },
    clipNorm(out, g, normMax) {
      holds("g", g, size(out));
      return inner.clipNorm(out, g, normMax);
    },
    clipValues(out, g, most) {
      holds("g", g, size(out));
      return inner.clipValues(out, g, most);
    },
    average(average, w, decay) {
      holds("w", w, size(average));
      inner.average(average, w, decay);
    },
    swap(a, b) {
      holds("b", b, size(a));
      inner.swap(a, b);
    },
    sgd(w, g, learningRate) {
      holds("g", g, size(w));
      return inner.sgd(w, g, learningRate);
    },
    adagrad(w, acc, g, learningRate, epsilon) {
      holds("acc", acc, size(w));
      holds("g", g, size(w));
      return inner.adagrad(w, acc, g, learningRate, epsilon);
    },
    momentum(w, buffer, g, learningRate, momentum) {
      holds("buffer", buffer, size(w));
      holds("g", g, size(w));
      return inner.momentum(w, buffer, g, learningRate, momentum);
    },
    adam(w, m, v, g, rule) {
      for (const t of [m, v, g]) holds("m, v and g", t, size(w));
      return inner.adam(w, m, v, g, rule);
    },
    lamb(w, m, v, g, rule) {
      for (const t of [m, v, g]) holds("m, v and g", t, size(w));
      return inner.lamb(w, m, v, g, rule);
    },
  };
}

/** Asserts that `trees` are consecutive aligned subtrees that cover all `slices` slices. */
function complete(trees: readonly Subtree[], slices: number): void {
  let at = 0;
  for (const { first, count } of trees) {
    const aligned = Number.isInteger(Math.log2(count)) && first % count === 0;
    assert(
      first === at && aligned,
      `Expected an aligned subtree from ${at}, got ${first}+${count}`,
    );
    at += count;
  }
  assert.equal(at, slices, "Expected subtrees that cover every slice");
}
