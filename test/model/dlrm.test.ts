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
  columnOf,
  columnsOf,
  createDlrm,
  type Dlrm,
  forwardBottom,
  forwardTop,
  gradientsOf,
  shapeOf,
} from "../../src/model/dlrm.ts";
import { type ModelOptions, modelOptions } from "../../src/model/options.ts";
import { keyOf, purposes, RandomStream } from "../../src/ports/random.ts";
import { gradientError, randomTensor } from "../helpers/batches/central-differences.ts";

const samples = 6;
const slices = slicesOf(0, 4, 4, samples);
const tables = [
  { name: "a", rows: 5, dim: 3 },
  { name: "b", rows: 4, dim: 3, pooling: "mean" as const, rowBlocks: 2 as const },
];
const small = { kind: "dlrm" as const, top: [5, 1] };

const models: Readonly<Record<string, ModelOptions>> = {
  "with dots": { ...small, dense: 2, bottom: [4, 3], tables },
  "with vectors side by side": { ...small, dense: 2, bottom: [4, 3], tables, interaction: "cat" },
  "with both": { ...small, dense: 2, bottom: [4, 3], tables, interaction: "dot+cat" },
  "without dense features": { ...small, tables },
  "without tables": { ...small, dense: 3, bottom: [4] },
  "with one vector alone": { ...small, tables: tables.slice(0, 1), interaction: "dot" },
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
  const bags = randomBags(stream, spec.tables);
  const dense = randomTensor(kernels, stream, [samples, spec.dense]);
  const labels = kernels.tensor([samples]);
  for (let i = 0; i < samples; i++) valuesOf(labels)[i] = stream.below(2);
  const common = { key: keyOf(3), purpose: purposes.dropout, step: 5, firstSample: 0 };
  const dropout = { ...common, rate: spec.dropout };
  const losses = new Float64Array(4);
  const dLogits = kernels.tensor([samples, 1]);

  const loss = () => {
    lookUp(model, rows, bags);
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
    const first = model.shape.hasDense ? model.shape.dim : 0;
    const columns = rows.length * model.shape.dim;
    const dPooled = kernels.tensor([samples, columns]);
    kernels.copyColumns(dPooled, 0, columnsOf(model, model.dX, samples), first, columns);
    const dTables = rows.map((table, i) => {
      const dRows = kernels.tensor([table.rows, table.dim]);
      kernels.dRows([dRows], [kernels.tensor([table.rows])], rows, i, bags, dPooled, slices);
      return dRows;
    });
    return { flat, dTables };
  };
  return { model, rows, loss, backward };
}

function lookUp(model: Dlrm, rows: readonly Rows[], bags: Bags): void {
  if (rows.length === 0) return;
  const { kernels, shape } = model;
  const pooled = kernels.tensor([samples, rows.length * shape.dim]);
  kernels.pool(pooled, rows, bags, 0, samples);
  const x = columnsOf(model, model.x, samples);
  for (const table of rows.keys()) {
    kernels.copyColumns(x, columnOf(shape, table), pooled, table * shape.dim, shape.dim);
  }
}

/** Bags of up to three ids: some empty, some with an id twice. */
function randomBags(stream: RandomStream, specs: readonly { rows: number }[]): Bags {
  const offsets = [0];
  const ids: number[] = [];
  for (const { rows } of specs) {
    for (let sample = 0; sample < samples; sample++) {
      const length = sample === 1 ? 0 : 1 + stream.below(3);
      for (let i = 0; i < length; i++) ids.push(stream.below(rows));
      if (sample === 2) ids.push(ids.at(-1) ?? 0);
      offsets.push(ids.length);
    }
  }
  return {
    tables: specs.length,
    samples,
    offsets: Int32Array.from(offsets),
    ids: Int32Array.from(ids),
  };
}
