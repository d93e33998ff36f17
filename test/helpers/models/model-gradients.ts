// A whole model with the rows of its tables on one device, in float64: forward and backward as the
// step calls them, against central differences.

import type { ExecutionContext } from "ava";
import {
  type Bags,
  bagsFrom,
  type Kernels,
  type LossTerm,
  lookupsFrom,
  type Rows,
  type Tensor,
} from "../../../src/kernels/contract/kernels.ts";
import { slicesOf } from "../../../src/kernels/contract/slices.ts";
import { valuesOf } from "../../../src/kernels/reference/memory.ts";
import { createReference } from "../../../src/kernels/reference/reference.ts";
import { featuresOf, type Lookup, lookupsOf } from "../../../src/model/features.ts";
import type { Pass } from "../../../src/model/graph/graph.ts";
import {
  backwardEarly,
  backwardLate,
  createNetwork,
  dLogitsOf,
  forwardEarly,
  forwardLate,
  gradientsAt,
  logitsOf,
  type Network,
  vectorsOf,
} from "../../../src/model/graph/network.ts";
import { lossTermsOf } from "../../../src/model/loss.ts";
import { graphOf } from "../../../src/model/model.ts";
import { type ModelOptions, type ModelSpec, modelOptions } from "../../../src/model/options.ts";
import { keyOf, purposes, RandomStream } from "../../../src/ports/random.ts";
import { gradientError, randomTensor, total } from "../batches/central-differences.ts";

const samples = 6;
const slices = slicesOf(0, 4, 4, samples);
const alike: Omit<Pass, "lengthAt"> = {
  samples,
  slices,
  draw: { key: keyOf(3), step: 5, runs: [{ first: 0, count: samples, place: 0 }] },
  batch: {
    samples,
    sum: (out: Tensor, parts: readonly Tensor[]) => void valuesOf(out).set(total(parts)),
  },
};

/** Asserts that every dense parameter and every row has the gradient of the loss. */
export function modelHasGradients(t: ExecutionContext, options: ModelOptions): void {
  const { network, rows, loss, freeze, backward } = startModel(options);
  loss();
  freeze();
  const { flat, dTables } = backward();
  const flatError = gradientError(network.flat, valuesOf(flat), loss);
  t.true(flatError < 1e-7, `the dense parameters are off by ${flatError}`);
  for (const [table, { weights }] of rows.entries()) {
    const error = gradientError(weights, valuesOf(dTables[table] ?? flat), loss);
    t.true(error < 1e-7, `the rows of table ${table} are off by ${error}`);
  }
}

function startModel(options: ModelOptions) {
  const kernels: Kernels = createReference("float64");
  const stream = new RandomStream(11, purposes.faults);
  const spec = modelOptions.parse(options);
  const graph = graphOf(spec);
  const flat = kernels.tensor([graph.layout.length]);
  const { precision } = spec;
  const network = createNetwork({ kernels, graph, precision, samplesMax: samples, flats: [flat] });
  const fill = (to: Tensor) => kernels.copy(to, randomTensor(kernels, stream, to.shape));
  fill(network.flat);
  const rows = spec.tables.map((table) => kernels.rows({ ...table, stateWidth: 0 }));
  for (const { weights } of rows) fill(weights);
  const lookups = byTable(spec);
  const entries = lookups.flatMap(({ table, pooling }) => {
    const own = rows[table];
    return own === undefined ? [] : { ...own, pooling };
  });
  const bags = randomBags(stream, lookups, spec);
  const dense = randomTensor(kernels, stream, [samples, spec.dense]);
  const terms = lossTermsOf(graph);
  const width = terms.length;
  const labels = kernels.tensor([samples, width]);
  for (let i = 0; i < samples; i++) valuesOf(labels)[i * width] = stream.below(2);
  const losses = new Float64Array(4);

  const lengths = lengthsOf(lookups, bags);
  const lengthAt = (lookup: number, row: number) => lengths[lookup * samples + row] ?? 0;
  const pass = { ...alike, lengthAt };
  const loss = () => {
    lookUp(network, lookups, entries, bags);
    void forwardEarly(network, dense, pass);
    void forwardLate(network, pass);
    const logits = logitsOf(network, samples);
    const dLogits = dLogitsOf(network, samples);
    kernels.loss(losses, dLogits, logits, labels, isFrozen ? frozen : terms, samples, slices);
    return losses.reduce((sum, one) => sum + one, 0) / samples;
  };
  // No gradient flows into a predicted target: after the first forward pass it is fixed as a label.
  let isFrozen = false;
  const frozen = terms.map(
    (term, column): LossTerm => ({ ...term, target: { of: "label", column } }),
  );
  const freeze = () => {
    const logits = valuesOf(logitsOf(network, samples));
    for (const [column, { target }] of terms.entries()) {
      if (target.of === "label") continue;
      for (let i = 0; i < samples; i++) {
        const z = logits[i * width + target.column] ?? 0;
        valuesOf(labels)[i * width + column] = 1 / (1 + Math.exp(-z));
      }
    }
    isFrozen = true;
  };
  const backward = () => {
    void backwardLate(network, pass);
    void backwardEarly(network, pass);
    const columns = entries.reduce((sum, { dim }) => sum + dim, 0);
    const dPooled = kernels.tensor([samples, columns]);
    eachLookup(lookups, entries, (lookup, first, dim) => {
      const { of, column } = gradientsAt(network, lookup, samples);
      kernels.copyColumns(dPooled, first, of, column, dim);
    });
    const dTables = rows.map((table, i) => {
      const dRows = kernels.tensor([table.rows, table.dim]);
      const first = lookups.findIndex((one) => one.table === i);
      const counts = kernels.tensor([table.rows]);
      const count = lookupsFrom(entries, first);
      const column = entries.slice(0, first).reduce((sum, { dim }) => sum + dim, 0);
      const [own, ownBags] = [entries.slice(first, first + count), bagsFrom(bags, first, count)];
      kernels.dRows([dRows], [counts], own, ownBags, dPooled, column, slices);
      return dRows;
    });
    return { flat, dTables };
  };
  return { network, rows, loss, freeze, backward };
}

/** A lookup, and its index in the job. */
type Indexed = Lookup & { readonly index: number };

/** The lookups of a model, those of one table adjacent. */
function byTable(spec: ModelSpec): Indexed[] {
  const all = lookupsOf(featuresOf(spec)).map((own, index) => ({ ...own, index }));
  return spec.tables.flatMap((_, table) => all.filter((own) => own.table === table));
}

function lookUp(
  network: Network,
  lookups: readonly Indexed[],
  entries: readonly Rows[],
  bags: Bags,
): void {
  if (entries.length === 0) return;
  const { kernels } = network;
  const pooled = kernels.tensor([samples, entries.reduce((sum, { dim }) => sum + dim, 0)]);
  kernels.pool(pooled, entries, bags, 0, samples);
  eachLookup(lookups, entries, (lookup, first, dim) => {
    const { of, column } = vectorsOf(network, lookup, samples);
    kernels.copyColumns(of, column, pooled, first, dim);
  });
}

/** (lookups, samples): the count of ids of each bag, by the lookup's index in the job. */
function lengthsOf(lookups: readonly Indexed[], { offsets }: Bags): Int32Array {
  const lengths = new Int32Array(lookups.length * samples);
  for (const [at, { index }] of lookups.entries()) {
    for (let sample = 0; sample < samples; sample++) {
      const bag = at * samples + sample;
      lengths[index * samples + sample] = (offsets[bag + 1] ?? 0) - (offsets[bag] ?? 0);
    }
  }
  return lengths;
}

/**
 * Calls back for each lookup, by its index in the job, with its first column in their
 * concatenation.
 */
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

/**
 * Random bags of up to three ids: some empty, some with an id twice; at most one id per position.
 */
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
