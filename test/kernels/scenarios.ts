// Every kernel on random input of odd shapes: the same seed gives the same input to any kernels, so
// that implementations can be compared by value or by bit.

import {
  type Bags,
  type DensePrecision,
  type Kernels,
  type Pooling,
  type RowRule,
  type Rows,
  stateWidth,
  takesTrust,
} from "../../src/kernels/contract/kernels.ts";
import type { Precision } from "../../src/kernels/contract/precision.ts";
import { slicesOf, subtreesOf } from "../../src/kernels/contract/slices.ts";
import type { RandomStream } from "../../src/ports/random.ts";
import { lookupsAt, numbers, random } from "./cases.ts";

/** A random problem: lookups in tables, and the tables' rules. */
export interface Problem {
  readonly tables: Rows[];
  /** The index of each table's first lookup. */
  readonly firsts: readonly number[];
  readonly rules: RowRule[];
  readonly bags: Bags<Int32Array>;
  readonly columns: number;
}

/** A rule of the kind, with coefficients that give every term an effect. */
export function ruleOf(kind: RowRule["kind"], l2: number): RowRule {
  const [learningRate, epsilon] = [0.05, 1e-3];
  const decay = l2 > 0 ? 0.3 : 0;
  switch (kind) {
    case "sgd":
      return { kind, learningRate, l2, decay };
    case "momentum":
      return { kind, learningRate, momentum: 0.7, l2, decay };
    case "adagrad":
    case "rowWiseAdagrad":
      return { kind, learningRate, epsilon, l2, decay };
    case "ftrl":
      return { kind, learningRate, beta: 0.5, lambda1: 0.3, lambda2: 0.02, l2 };
    default: {
      const numbers = { learningRate, beta1: 0.9, beta2: 0.99, epsilon, decay };
      const corrections = { correction1: 1 - 0.9 ** 3, correction2: 1 - 0.99 ** 3 };
      return { kind, l2, ...numbers, ...corrections };
    }
  }
}

/** Every kind of rule. */
export const ruleKinds = [
  "sgd",
  "adagrad",
  "rowWiseAdagrad",
  "adam",
  "partialRowWiseAdam",
  "lamb",
  "partialRowWiseLamb",
  "ftrl",
  "momentum",
] as const;
/** Rows of tables: one row, and enough rows that a sort by row takes two passes. */
const rowsOfKind = [3000, 1, 40, 90];

/** Precisions of tables: mostly float32, as in practice. */
const precisions: readonly Precision[] = [
  "float32",
  "float16",
  "float32",
  "bfloat16",
  "float32",
  "int8",
  "float32",
];

/** Whether the rows of a table have a moving average. */
const isAveraged = (table: number) => table % 4 === 1 || table % 7 === 3;
const average = { decay: 0.97, steps: 300 };

/** The number of lookups in a table: mostly one. */
const lookupsOf = (table: number) => (table % 5 === 3 ? 2 : table % 7 === 2 ? 3 : 1);

const roundingOf = (table: number) => ({ key: [7, 8] as const, purpose: 2 ** 30 + table, step: 3 });

/**
 * A problem with tables of all rules, poolings and row blocks, one with a single row, one with
 * 3000; some have two or three lookups with different poolings. Bags are empty, hold one id or
 * several; ids repeat, and the last row is among them. Half of the problems have weighted bags.
 */
export function embeddingProblem(kernels: Kernels, stream: RandomStream): Problem {
  const samples = 1 + stream.below(40);
  const specs = ruleKinds.flatMap((kind, i) => [
    { kind, rows: 1 + stream.below(30), dim: 1 + stream.below(70), rowBlocks: 1 << (i % 3), l2: 0 },
    { kind, rows: rowsOfKind[i % 4] ?? 1, dim: 16 * (1 + (i % 4)), rowBlocks: 1, l2: 0.01 },
  ]);
  const own = specs.map((spec, i) => {
    const pooling: Pooling = i % 3 === 0 ? "mean" : "sum";
    const precision = precisions[i % precisions.length] ?? "float32";
    const averaged = isAveraged(i);
    const width = stateWidth(spec.kind, spec.dim, averaged);
    const rows = kernels.rows({ ...spec, pooling, stateWidth: width, precision, averaged });
    kernels.writeRows(rows, 0, numbers(stream, spec.rows * spec.dim));
    const state = numbers(stream, kernels.read(rows.state).length).map((value, at) => {
      const isSteps = averaged && at % width === width - 1;
      return isSteps ? stream.below(average.steps) : Math.abs(value);
    });
    kernels.write(rows.state, state);
    return rows;
  });
  const lookups = specs.flatMap((spec, i) =>
    Array.from({ length: lookupsOf(i) }, (_, k) => ({ spec, i, isFirst: k === 0, k })),
  );
  const tables = lookups.flatMap(({ i, k }) => {
    const rows = own[i];
    const other = rows?.pooling === "sum" ? ("mean" as const) : ("sum" as const);
    return rows === undefined ? [] : k === 1 ? { ...rows, pooling: other } : rows;
  });
  const bags = bagsOf(
    stream,
    lookups.map(({ spec }) => spec),
    samples,
  );
  const columns = lookups.reduce((sum, { spec }) => sum + spec.dim, 0);
  return {
    tables,
    firsts: lookups.flatMap(({ isFirst }, at) => (isFirst ? at : [])),
    rules: lookups.map(({ spec: { kind, l2 }, i }) => {
      return {
        ...ruleOf(kind, l2),
        rounding: roundingOf(i),
        ...(i % 3 === 1 && { clip: 0.4 }),
        ...(isAveraged(i) && { average }),
      };
    }),
    bags,
    columns,
  };
}

function bagsOf(
  stream: RandomStream,
  specs: readonly { rows: number }[],
  samples: number,
): Bags<Int32Array> {
  const offsets = [0];
  const ids: number[] = [];
  for (const { rows } of specs) {
    for (let s = 0; s < samples; s++) {
      const length = stream.below(3) === 0 ? 0 : 1 + stream.below(4);
      for (let k = 0; k < length; k++) {
        const id = stream.below(4) === 0 ? rows - 1 : stream.below(rows);
        ids.push(id);
        if (stream.below(4) === 0) ids.push(id);
      }
      offsets.push(ids.length);
    }
  }
  const bags = {
    tables: specs.length,
    samples,
    offsets: Int32Array.from(offsets),
    ids: Int32Array.from(ids),
  };
  return stream.below(2) === 0 ? bags : { ...bags, weights: numbers(stream, ids.length) };
}

/** The same bags, their ids in 64 bits. */
export function widened(bags: Bags<Int32Array>): Bags<BigInt64Array> {
  return { ...bags, ids: BigInt64Array.from(bags.ids, BigInt) };
}

/** Weights, states and touched flags of a problem, for comparison. */
export function stateOf(kernels: Kernels, problem: Problem): Float32Array[] {
  return problem.tables.flatMap((rows) => [
    kernels.readRows(rows, 0, rows.rows),
    kernels.read(rows.state),
    Float32Array.from(rows.touched),
  ]);
}

/** A computation with kernels on random input; returns its outputs in a fixed order. */
export type Scenario = (kernels: Kernels, stream: RandomStream) => Float32Array[];

/** `isWide`: has enough inputs and outputs that weight gradients pack both operands in each set. */
const layer =
  (precision: DensePrecision, isWide = false): Scenario =>
  (kernels, stream) => {
    const outputs = isWide ? 45 : stream.below(3) === 0 ? 1 : 1 + stream.below(130);
    const inputs = isWide
      ? 70
      : stream.below(4) === 0
        ? 1 + stream.below(1300)
        : 1 + stream.below(90);
    const samples = stream.below(4) === 0 ? 1 : 1 + stream.below(330);
    const sliceCount = 1 << stream.below(5);
    const x = random(kernels, stream, [samples, inputs]);
    const w = random(kernels, stream, [outputs, inputs]);
    const b = random(kernels, stream, [outputs]);
    const out = kernels.tensor([samples, outputs]);
    kernels.linear(out, x, w, b, false, precision);
    const plain = kernels.read(out);
    kernels.linear(out, x, w, b, true, precision);
    const d = random(kernels, stream, [samples, outputs]);
    kernels.dRelu(d, out);
    const dX = kernels.tensor([samples, inputs]);
    const count = stream.below(3);
    const plus = Array.from({ length: count }, () => random(kernels, stream, [samples, inputs]));
    const above = stream.below(2) === 0 ? x : undefined;
    kernels.dLinearInput(dX, d, w, precision, plus, above);
    // Only the slices from 1 on of a larger batch, so that there are several subtrees.
    const slices = { ...slicesOf(0, sliceCount, sliceCount, samples), first: 1 };
    const trees = subtreesOf(slices.first, sliceCount);
    const dW = trees.map(() => kernels.tensor([outputs, inputs]));
    const dB = trees.map(() => kernels.tensor([outputs]));
    kernels.dLinearWeight(dW, dB, d, x, slices, precision);
    return [plain, ...[out, d, dX, ...dW, ...dB].map((t) => kernels.read(t))];
  };

const columns: Scenario = (kernels, stream) => {
  const [samples, count] = [1 + stream.below(40), stream.below(70)];
  const [outFirst, fromFirst] = [stream.below(20), stream.below(20)];
  const out = random(kernels, stream, [samples, outFirst + count + 1 + stream.below(5)]);
  const from = random(kernels, stream, [samples, fromFirst + count + 1 + stream.below(5)]);
  kernels.copyColumns(out, outFirst, from, fromFirst, count);
  return [kernels.read(out)];
};

const distinctLists: Scenario = (kernels, stream) => {
  const [samples, lists, count] = [1 + stream.below(40), 1 + stream.below(9), stream.below(70)];
  const [outFirst, fromFirst] = [stream.below(20), stream.below(20)];
  const out = random(kernels, stream, [samples, outFirst + count + 1]);
  const from = random(kernels, stream, [lists, fromFirst + count + stream.below(5)]);
  const inverse = Int32Array.from({ length: samples }, () => stream.below(lists));
  const some = Int32Array.from({ length: lists }, () => stream.below(count + 1));
  const [used] = stream.below(2) === 0 ? [some] : [];
  kernels.expandColumns(out, outFirst, from, fromFirst, count, inverse, used);
  kernels.dExpandColumns(from, fromFirst, out, outFirst, count, inverse, used);
  return [kernels.read(out), kernels.read(from)];
};

const interaction: Scenario = (kernels, stream) => {
  const [samples, features] = [1 + stream.below(4), 1 + stream.below(40)];
  const [dim, copied] = [1 + stream.below(80), stream.below(features + 1)];
  return [true, false].flatMap((dots) => {
    const x = random(kernels, stream, [samples, features, dim]);
    const width = copied * dim + (dots ? (features * (features - 1)) / 2 : 0);
    const out = kernels.tensor([samples, width]);
    kernels.interact(out, x, copied, dots);
    const dOut = random(kernels, stream, [samples, width]);
    const dX = kernels.tensor([samples, features, dim]);
    kernels.dInteract(dX, dOut, x, copied, dots);
    return [kernels.read(out), kernels.read(dX)];
  });
};

const draws: Scenario = (kernels, stream) => {
  const t = kernels.tensor([1 + stream.below(300)]);
  kernels.uniform(t, [stream.word(), 7], 3, stream.below(50), 0.3);
  const far = kernels.tensor([9]);
  kernels.uniform(far, [stream.word(), 7], 0x1000_0001, 2 ** 35 - 2 + stream.below(4), 0.3);
  const x = random(kernels, stream, [1 + stream.below(20), 1 + stream.below(30)]);
  kernels.dropout(x, [stream.word(), 1], 0x2000_0001, 5, 2 ** 32 + stream.below(99), 0.3);
  return [t, far, x].map((values) => kernels.read(values));
};

const update: Scenario = (kernels, stream) => {
  const problem = embeddingProblem(kernels, stream);
  const { tables, rules, columns, firsts } = problem;
  const bags = stream.below(2) === 0 ? problem.bags : widened(problem.bags);
  const out = kernels.tensor([bags.samples, columns]);
  kernels.pool(out, tables, bags, 0, bags.samples);
  const d = random(kernels, stream, [bags.samples, columns]);
  const count = 1 << stream.below(5);
  const slices = slicesOf(0, count, count, bags.samples);
  const all = firsts.map((first) => lookupsAt({ tables, bags, rules }, first));
  const squares = all.map((own) =>
    kernels.rowSquares(own.tables, own.bags, d, own.first, slices, own.rules),
  );
  const norms = all
    .filter((own) => takesTrust(own.rules[0]?.kind ?? "sgd"))
    .map((own) => kernels.rowNorms(own.tables, own.bags, d, own.first, slices, own.rules));
  kernels.updateRows(tables, bags, d, slices, rules);
  return [
    kernels.read(out),
    ...squares,
    ...norms.map((sums) => kernels.rowTrust([sums], [1])),
    ...stateOf(kernels, problem),
  ];
};

/** Moving averages of rows, in tables of this scenario alone, and their lookup. */
const averages: Scenario = (kernels, stream) => {
  const count = 1 + stream.below(3);
  const specs = Array.from({ length: 4 * count }, (_, i) => {
    const precision = (["float32", "float16", "bfloat16", "int8"] as const)[i % 4] ?? "float32";
    const rowBlocks = 1 << (i % 3);
    return { rows: 1 + stream.below(30), dim: 1 + stream.below(70), precision, rowBlocks };
  });
  const tables = specs.map((spec, i) => {
    const pooling: Pooling = i % 2 === 0 ? "mean" : "sum";
    const rows = kernels.rows({ ...spec, pooling, stateWidth: spec.dim + 1, averaged: true });
    kernels.writeRows(rows, 0, numbers(stream, spec.rows * spec.dim));
    const state = numbers(stream, spec.rows * (spec.dim + 1));
    for (let row = 1; row <= spec.rows; row++) state[row * (spec.dim + 1) - 1] = stream.below(9);
    kernels.write(rows.state, state);
    return rows;
  });
  const bags = bagsOf(stream, specs, 1 + stream.below(20));
  const out = kernels.tensor([bags.samples, specs.reduce((sum, { dim }) => sum + dim, 0)]);
  return [8, 40, 100_000].map((steps) => {
    kernels.pool(out, tables, bags, 0, bags.samples, { decay: 0.9, steps });
    return kernels.read(out);
  });
};

const replicated: Scenario = (kernels, stream) => {
  const problem = embeddingProblem(kernels, stream);
  const { tables, rules, columns } = problem;
  const bags = stream.below(2) === 0 ? problem.bags : widened(problem.bags);
  const d = random(kernels, stream, [bags.samples, columns]);
  const count = 1 + stream.below(8);
  const slices = { ...slicesOf(0, count, count, bags.samples), first: stream.below(9) };
  const trees = subtreesOf(slices.first, count);
  return problem.firsts.flatMap((table) => {
    const rows = tables[table];
    if (rows === undefined) return [];
    const dRows = trees.map(() => kernels.tensor([rows.rows, rows.dim]));
    const counts = trees.map(() => kernels.tensor([rows.rows]));
    const own = lookupsAt({ tables, bags, rules }, table);
    kernels.dRows(dRows, counts, own.tables, own.bags, d, own.first, slices);
    const [gradient, mask, rule] = [dRows[0], counts[0], rules[table]];
    if (gradient === undefined || mask === undefined || rule === undefined) return [];
    kernels.applyRows(rows, gradient, mask, rule, table % 2 === 0);
    const tensors = [...dRows, ...counts, rows.state].map((t) => kernels.read(t));
    return [...tensors, kernels.readRows(rows, 0, rows.rows)];
  });
};

const optimizers: Scenario = (kernels, stream) => {
  const size = 1 + stream.below(1500);
  const [w, g] = [random(kernels, stream, [size]), random(kernels, stream, [size])];
  const [m, v] = [random(kernels, stream, [size]), kernels.tensor([size])];
  kernels.write(v, numbers(stream, size).map(Math.abs));
  const plain = { learningRate: 0.1, l2: 0, decay: 0 };
  kernels.applyFlat(w, [], g, { kind: "sgd", ...plain });
  kernels.applyFlat(w, [v], g, { kind: "adagrad", epsilon: 1e-3, ...plain });
  const corrections = { correction1: 0.19, correction2: 0.02 };
  const betas = { beta1: 0.9, beta2: 0.99 };
  const adamNumbers = { ...plain, epsilon: 1e-3, decay: 0.2, ...betas, ...corrections };
  kernels.applyFlat(w, [m, v], g, { kind: "adam", ...adamNumbers });
  kernels.applyFlat(w, [m], g, { kind: "momentum", momentum: 0.8, ...plain });
  kernels.applyFlat(w, [m, v], g, { kind: "lamb", ...adamNumbers });
  const trees = [...subtreesOf(0, 3), ...subtreesOf(3, 4), ...subtreesOf(7, 1)];
  const parts = trees.map(() => random(kernels, stream, [size]));
  const out = kernels.tensor([size]);
  kernels.foldSubtrees(out, parts, trees, 8);
  const count = 1 + stream.below(size);
  const selected = { indices: new Int32Array(count), codes: new Uint16Array(count) };
  kernels.selectLargest(selected, w, out);
  kernels.addSelected(g, selected);
  return [w, g, m, v, out].map((t) => kernels.read(t));
};

const exchange: Scenario = (kernels, stream) => {
  const [samples, columns] = [1 + stream.below(20), 1 + stream.below(150)];
  const parts = [0, 1, 4].map((first) => ({
    from: random(kernels, stream, [samples, columns + 5]),
    first: stream.below(6),
    tree: { first, count: first === 4 ? 4 : 1 },
  }));
  const lengths = Int32Array.from({ length: samples }, () => stream.below(4));
  const outs = precisions.map((precision, i) => {
    const out = kernels.tensor([samples, columns]);
    kernels.foldPooled(out, 0, parts, 8, columns, i % 2 === 0 ? lengths : undefined, precision);
    return kernels.read(out);
  });
  const shared = kernels.tensor([samples, columns + 2]);
  kernels.shareColumns(shared, 1, (parts[0] ?? { from: shared }).from, 2, columns, lengths);
  return [...outs, kernels.read(shared)];
};

/** Scenarios of all kernels, by the part of the step that uses them. */
export const scenarios: Readonly<Record<string, Scenario>> = {
  "dense layers": layer("float32"),
  "wide dense layers": layer("float32", true),
  "dense layers in bfloat16": layer("bfloat16"),
  columns,
  distinctLists,
  interaction,
  "random draws": draws,
  "embedding updates": update,
  "moving averages of rows": averages,
  "replicated tables": replicated,
  "dense optimizers and folds": optimizers,
  "pooled vectors between devices": exchange,
};
