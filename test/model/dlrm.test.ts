// The whole DLRM, rows included, against central differences: forward and backward as the step
// calls them, on one device, in float64.

import test from "ava";
import { quantaOf } from "../../src/embedding/rows/slab.ts";
import type { Bags, Kernels, Rows, Tensor } from "../../src/kernels/contract/kernels.ts";
import { slicesOf } from "../../src/kernels/contract/slices.ts";
import { valuesOf } from "../../src/kernels/reference/memory.ts";
import { createReference } from "../../src/kernels/reference/reference.ts";
import {
  backwardBottom,
  backwardTop,
  createDlrm,
  type Dlrm,
  forwardBottom,
  forwardTop,
  gradientsAt,
  gradientsOf,
  shapeOf,
  vectorsOf,
} from "../../src/model/dlrm.ts";
import { featuresOf, type Lookup, lookupsOf } from "../../src/model/features.ts";
import { type ModelOptions, type ModelSpec, modelOptions } from "../../src/model/options.ts";
import { keyOf, purposes, RandomStream } from "../../src/ports/random.ts";
import { gradientError, randomTensor } from "../helpers/batches/central-differences.ts";

const samples = 6;
const slices = slicesOf(0, 4, 4, samples);
const tables = [
  { name: "a", rows: 5, dim: 3 },
  { name: "b", rows: 4, dim: 3, pooling: "mean" as const, rowBlocks: 2 as const },
];
const small = { kind: "dlrm" as const, top: [5, 1] };

/** Dims of 2, 3 and 6. */
const widths = [
  { name: "n", rows: 4, dim: 2 },
  { name: "a", rows: 5, dim: 3 },
  { name: "c", rows: 3, dim: 6 },
];
const wide = { ...small, dense: 2, bottom: [4, 3], tables: widths };
const shared = [
  { column: "a", pooling: "mean" as const },
  { column: "n", pooling: "none" as const, maxLength: 3 },
  { column: "a2", table: "a" },
  { column: "c", vectors: 2 },
  { column: "a3", table: "a", pooling: "none" as const, maxLength: 2, vectors: 2 },
];

const models: Readonly<Record<string, ModelOptions>> = {
  "with dots": { ...small, dense: 2, bottom: [4, 3], tables },
  "with vectors side by side": { ...small, dense: 2, bottom: [4, 3], tables, interaction: "cat" },
  "with both": { ...small, dense: 2, bottom: [4, 3], tables, interaction: "dot+cat" },
  "without dense features": { ...small, tables },
  "without tables": { ...small, dense: 3, bottom: [4] },
  "with one vector alone": { ...small, tables: tables.slice(0, 1), interaction: "dot" },
  "with tables of three dims": { ...small, dense: 2, bottom: [4, 3], tables: widths },
  "of three dims side by side": { ...wide, interaction: "cat" },
  "of three dims, with both": { ...wide, interaction: "dot+cat" },
  "without dense features, of three dims": { ...small, tables: widths, dim: 4 },
  "with features that share tables": { ...wide, features: shared },
  "with shared tables in a group": {
    ...wide,
    features: shared,
    groups: [{ name: "rare", features: ["a2", "a"], vectors: 2 }],
  },
  "with dropout": { ...small, dense: 2, bottom: [3], tables, top: [6, 5, 1], dropout: 0.3 },
};

for (const [title, options] of Object.entries(models)) {
  test(`every parameter and row of a DLRM ${title} has the gradient of the loss`, (t) => {
    const subject = startDlrm(options);
    const { model, rows, loss } = subject;
    loss();
    const { flat, dTables } = subject.backward();
    const flatError = gradientError(model.flat, valuesOf(flat), loss);
    t.true(flatError < 1e-7, `the dense parameters are off by ${flatError}`);
    for (const [table, { weights }] of rows.entries()) {
      const error = gradientError(weights, valuesOf(dTables[table] ?? flat), loss);
      t.true(error < 1e-7, `the rows of table ${table} are off by ${error}`);
    }
  });
}

test("what the top sees has the width that the interaction gives it", (t) => {
  const width = (interaction: "dot" | "cat" | "dot+cat") =>
    shapeOf(modelOptions.parse({ ...small, dense: 2, bottom: [3], tables, interaction })).top[0];
  t.is(width("dot"), 3 + 3);
  t.is(width("cat"), 9);
  t.is(width("dot+cat"), 9 + 3);
  t.is(quantaOf(33), 2);
});

function startDlrm(options: ModelOptions) {
  const kernels: Kernels = createReference("float64");
  const stream = new RandomStream(11, purposes.faults);
  const spec = modelOptions.parse(options);
  const model = createDlrm(kernels, spec, samples);
  const fill = (to: Tensor) => kernels.copy(to, randomTensor(kernels, stream, to.shape));
  fill(model.flat);
  const rows = spec.tables.map((table) => kernels.rows({ ...table, stateWidth: 0 }));
  for (const { weights } of rows) fill(weights);
  const lookups = byTable(spec);
  const entries = lookups.flatMap(({ table, pooling }) => {
    const own = rows[table];
    return own === undefined ? [] : { ...own, pooling };
  });
  const bags = randomBags(stream, lookups, spec);
  const dense = randomTensor(kernels, stream, [samples, spec.dense]);
  const labels = kernels.tensor([samples]);
  for (let i = 0; i < samples; i++) valuesOf(labels)[i] = stream.below(2);
  const common = { key: keyOf(3), purpose: purposes.dropout, step: 5, firstSample: 0 };
  const dropout = { ...common, rate: spec.dropout };
  const losses = new Float64Array(4);
  const dLogits = kernels.tensor([samples, 1]);

  const loss = () => {
    lookUp(model, lookups, entries, bags);
    forwardBottom(model, dense);
    const logits = forwardTop(model, samples, dropout);
    kernels.bceWithLogits(losses, dLogits, logits, labels, samples, slices);
    return losses.reduce((sum, one) => sum + one, 0) / samples;
  };
  const backward = () => {
    const flat = kernels.tensor([model.shape.layout.length]);
    const gradients = gradientsOf(model, [flat]);
    backwardTop(model, dLogits, slices, gradients, dropout);
    backwardBottom(model, dense, slices, gradients);
    const columns = entries.reduce((sum, { dim }) => sum + dim, 0);
    const dPooled = kernels.tensor([samples, columns]);
    eachLookup(lookups, entries, (lookup, first, dim) => {
      const { of, column } = gradientsAt(model, lookup, samples);
      kernels.copyColumns(dPooled, first, of, column, dim);
    });
    const dTables = rows.map((table, i) => {
      const dRows = kernels.tensor([table.rows, table.dim]);
      const first = lookups.findIndex((one) => one.table === i);
      const counts = kernels.tensor([table.rows]);
      kernels.dRows([dRows], [counts], entries, first, bags, dPooled, slices);
      return dRows;
    });
    return { flat, dTables };
  };
  return { model, rows, loss, backward };
}

/** A lookup, and its index in the job. */
type Indexed = Lookup & { readonly index: number };

/** The lookups of a model, those of one table side by side. */
function byTable(spec: ModelSpec): Indexed[] {
  const all = lookupsOf(featuresOf(spec)).map((own, index) => ({ ...own, index }));
  return spec.tables.flatMap((_, table) => all.filter((own) => own.table === table));
}

function lookUp(
  model: Dlrm,
  lookups: readonly Indexed[],
  entries: readonly Rows[],
  bags: Bags,
): void {
  if (entries.length === 0) return;
  const { kernels } = model;
  const pooled = kernels.tensor([samples, entries.reduce((sum, { dim }) => sum + dim, 0)]);
  kernels.pool(pooled, entries, bags, 0, samples);
  eachLookup(lookups, entries, (lookup, first, dim) => {
    const { of, column } = vectorsOf(model, lookup, samples);
    kernels.copyColumns(of, column, pooled, first, dim);
  });
}

/** The lookups, by their index in the job, with their columns side by side. */
function eachLookup(
  lookups: readonly Indexed[],
  entries: readonly Rows[],
  visit: (lookup: number, first: number, dim: number) => void,
): void {
  let first = 0;
  for (const [at, { dim }] of entries.entries()) {
    visit(lookups[at]?.index ?? 0, first, dim);
    first += dim;
  }
}

/** Bags of up to three ids: some empty, some with an id twice; of positions, one id at most. */
function randomBags(
  stream: RandomStream,
  lookups: readonly Indexed[],
  { tables: specs }: ModelSpec,
): Bags {
  const offsets = [0];
  const ids: number[] = [];
  for (const { table, position } of lookups) {
    const { rows = 1 } = specs[table] ?? {};
    for (let sample = 0; sample < samples; sample++) {
      const most = position === undefined ? 1 + stream.below(3) : sample % (position + 2);
      const length = sample === 1 ? 0 : position === undefined ? most : Math.min(1, most);
      for (let i = 0; i < length; i++) ids.push(stream.below(rows));
      if (sample === 2 && position === undefined) ids.push(ids.at(-1) ?? 0);
      offsets.push(ids.length);
    }
  }
  return {
    tables: lookups.length,
    samples,
    offsets: Int32Array.from(offsets),
    ids: Int32Array.from(ids),
  };
}
