// The native kernels: the contract of kernels.ts, implemented by the addon
// (native/bindings/addon.cc). Tensors are typed arrays in JavaScript's memory, as in the reference
// kernels. The addon accesses them only during a call.

import { type Addon, addonOrigin, loadAddon } from "../../ports/addon.ts";
import type {
  Bags,
  Kernels,
  PooledPart,
  RowRule,
  RowSums,
  Rows,
  Tensor,
} from "../contract/kernels.ts";
import { packedBytes } from "../contract/precision.ts";
import { type Slices, subtreesOf } from "../contract/slices.ts";
import { average, clipNorm, clipValues, swap } from "../reference/beside-updates.ts";
import { loss } from "../reference/loss.ts";
import { createMemory, HostTensor, valuesOf } from "../reference/memory.ts";
import { rowMeans, rowTrust } from "../reference/row-sums.ts";
import { blocks } from "./blocks.ts";
import { cache, records } from "./cache.ts";
import { aligned, listed, listTables, precisions } from "./tables.ts";

export type InstructionSet = "avx512bf16" | "avx512" | "avx2" | "portable";

/**
 * For tests and benches: limits the native kernels of this thread to one instruction set. Returns
 * false if the processor lacks the set, the addon was compiled without it, or there is no addon.
 */
export function limitIsa(isa: InstructionSet): boolean {
  return loadAddon()?.limitIsa?.(isa) === true;
}

/** Whether the addon has code for an instruction set, even if the processor lacks the set. */
export function isCompiledFor(isa: InstructionSet): boolean {
  return addonOrigin()?.sets.includes(isa) === true;
}

/** The native kernels of an addon, by default that of this process; undefined without an addon. */
export function createNative(addon: Addon | undefined = loadAddon()): Kernels | undefined {
  if (addon === undefined) return undefined;
  const memory = createMemory((length) => aligned(addon, length));
  return {
    arithmetic: String(addon.arithmetic!()),
    ...memory,
    copyColumns(out, outFirst, from, fromFirst, columns) {
      const to = data(out);
      const source = data(from);
      const samples = out.shape[0]!;
      const widthTo = to.length / samples;
      const widthFrom = source.length / samples;
      addon.copyColumns!(to, outFirst, widthTo, source, fromFirst, widthFrom, samples, columns);
    },
    rows(spec) {
      const rows = memory.rows(spec);
      const pages = [data(rows.weights), rows.codes, data(rows.state), rows.touched];
      for (const t of pages) addon.useLargePages!(asFloats(t));
      return rows;
    },
    ...dense(addon),
    ...blocks(addon),
    loss,
    clipNorm,
    clipValues,
    average,
    swap,
    ...embedding(addon),
    rowMeans,
    rowTrust,
    ...exchange(addon),
    ...cache(addon),
    ...records(addon),
    ...flat(addon),
  };
}

const data = valuesOf;

/** The same memory as float32 words. */
function asFloats({ buffer, byteOffset, byteLength }: ArrayBufferView): Float32Array {
  return new Float32Array(buffer, byteOffset, Math.floor(byteLength / 4));
}

/** Outputs in a panel of packed weights, as in native/dense/packed.h. */
const packedOutputs = 64;

type DenseNames =
  | "uniform"
  | "linear"
  | "packLayer"
  | "linearPacked"
  | "dRelu"
  | "dLinearInput"
  | "dLinearWeight"
  | "dropout"
  | "interact"
  | "dInteract";

function dense(addon: Addon): Pick<Kernels, DenseNames> {
  const { uniform, linear, dRelu, dLinearInput, dLinearWeight, dropout } = addon;
  const { packLayer, linearPacked } = addon;
  const { interact, dInteract } = addon;
  return {
    uniform: (t, key, purpose, first, scale) =>
      void uniform!(data(t), key[0], key[1], purpose, first, scale),
    linear(out, x, w, b, relu, precision) {
      const [outputs, inputs] = w.shape;
      const operands = [data(out), data(x), data(w), data(b)];
      linear!(...operands, x.shape[0], inputs, outputs, relu, precision === "bfloat16");
    },
    packLayer(w) {
      const [outputs = 0, inputs = 0] = w.shape;
      const panels = Math.ceil(outputs / packedOutputs);
      const packed = aligned(addon, panels * packedOutputs * inputs);
      packLayer!(packed, data(w), inputs, outputs);
      return new HostTensor([outputs, inputs], packed);
    },
    linearPacked(out, x, packed, b, relu) {
      const [outputs, inputs] = packed.shape;
      const [rows] = x.shape;
      linearPacked!(data(out), data(x), data(packed), data(b), rows, inputs, outputs, relu);
    },
    dRelu: (d, out) => void dRelu!(data(d), data(out)),
    dLinearInput(dX, dOut, w, precision, plus = [], above) {
      const [outputs, inputs] = w.shape;
      const shape = [dOut.shape[0], inputs, outputs];
      const isShort = precision === "bfloat16";
      const operands = [data(dX), data(dOut), data(w)];
      dLinearInput!(...operands, ...shape, isShort, plus.map(data), above && data(above));
    },
    dLinearWeight(dW, dB, dOut, x, slices, precision) {
      const [outputs, inputs] = [dW[0]!.shape[0], dW[0]!.shape[1]];
      const [dWs, dBs] = [dW.map(data), dB.map(data)];
      const { first, bounds } = slices;
      const operands = [dWs, dBs, data(dOut), data(x)];
      dLinearWeight!(...operands, inputs, outputs, first, bounds, precision === "bfloat16");
    },
    dropout(x, key, purpose, step, firstSample, rate) {
      const first = firstSample * (data(x).length / Math.max(1, x.shape[0]!));
      const limit = Math.floor(rate * 2 ** 32);
      dropout!(data(x), key[0], key[1], purpose, step, first, 1 - rate, limit);
    },
    interact: (out, x, copied, dots) =>
      void interact!(data(out), data(x), x.shape[0], x.shape[1], x.shape[2], copied, dots),
    dInteract(dX, dOut, x, copied, dots) {
      const [samples, features, dim] = x.shape;
      dInteract!(data(dX), data(dOut), data(x), samples, features, dim, copied, dots);
    },
  };
}

type EmbeddingNames =
  | "born"
  | "pool"
  | "updateRows"
  | "rowSquares"
  | "rowNorms"
  | "dRows"
  | "applyRows";

function embedding(addon: Addon): Pick<Kernels, EmbeddingNames> {
  return {
    born: (rows, key, purpose, scale) =>
      void addon.born!(...listTables([rows]), key[0], key[1], purpose, scale),
    pool(out, tables, bags, first, count, average) {
      const read = [first, count, average?.decay, average?.steps];
      addon.pool!(data(out), ...listed(tables), ...lookups(bags), ...read);
    },
    updateRows(tables, bags, dPooled, slices, rules, completed) {
      const known = completed === undefined ? [] : listCompleted(completed);
      return Number(addon.updateRows!(...update(tables, bags, dPooled, slices, rules), ...known));
    },
    rowSquares: (tables, table, bags, dPooled, slices, rules) =>
      addon.rowSquares!(...update(tables, bags, dPooled, slices, rules), table) as Float32Array,
    rowNorms: (tables, table, bags, dPooled, slices, rules, means) =>
      addon.rowNorms!(
        ...update(tables, bags, dPooled, slices, rules),
        table,
        means,
      ) as Float64Array,
    dRows(dRows, counts, tables, table, bags, dPooled, slices) {
      const gradients = [data(dPooled), slices.first, slices.bounds, table];
      const outputs = [dRows.map(data), counts.map(data)];
      addon.dRows!(...listed(tables), ...lookups(bags), ...gradients, ...outputs);
    },
    applyRows(rows, dRows, counts, rule, whole) {
      const gradient = [data(dRows), data(counts), whole];
      return addon.applyRows!(...listTables([rows]), listRules([rule]), ...gradient) === -1;
    },
  };
}

function update(
  tables: readonly Rows[],
  bags: Bags,
  dPooled: Tensor,
  slices: Slices,
  rules: readonly RowRule[],
): unknown[] {
  const gradients = [data(dPooled), slices.first, slices.bounds];
  return [...listed(tables), listRules(rules), ...lookups(bags), ...gradients];
}

const none = new Float32Array();

/** Means and trust ratios of each table; empty arrays where there are none. */
function listCompleted(completed: readonly (RowSums | undefined)[]): Float32Array[][] {
  return [
    completed.map((sums) => sums?.means ?? none),
    completed.map((sums) => sums?.trust ?? none),
  ];
}

function lookups({ offsets, ids, weights }: Bags): unknown[] {
  return [offsets, ids, weights];
}

/** The order of `RuleKind` in native/kernels.h. */
const ruleKinds: readonly RowRule["kind"][] = [
  "sgd",
  "momentum",
  "adagrad",
  "rowWiseAdagrad",
  "adam",
  "partialRowWiseAdam",
  "lamb",
  "partialRowWiseLamb",
  "ftrl",
];

/**
 * Parameters of a rule in the order in which `ruleOf` in native/bindings/call.h reads them: after
 * the kind, before the average and rounding.
 */
const ruleNumbers = [
  "learningRate",
  "l2",
  "decay",
  "epsilon",
  "momentum",
  "beta1",
  "beta2",
  "correction1",
  "correction2",
  "beta",
  "lambda1",
  "lambda2",
  "clip",
] as const;

type RuleNumber = (typeof ruleNumbers)[number];

function listRules(rules: readonly RowRule[]): Float64Array {
  const width = 7 + ruleNumbers.length;
  const numbers = new Float64Array(width * rules.length);
  for (let i = 0; i < rules.length; i++) {
    const rule: RowRule & { readonly [name in RuleNumber]?: number | undefined } = rules[i]!;
    let at = width * i;
    numbers[at++] = ruleKinds.indexOf(rule.kind);
    for (const name of ruleNumbers) numbers[at++] = rule[name] ?? 0;
    numbers[at++] = rule.average?.decay ?? 0;
    numbers[at++] = rule.average?.steps ?? 0;
    if (rule.rounding === undefined) continue;
    const { key, purpose, step } = rule.rounding;
    numbers[at++] = key[0];
    numbers[at++] = key[1];
    numbers[at++] = purpose >>> 0;
    numbers[at] = step >>> 0;
  }
  return numbers;
}

type ExchangeNames =
  | "foldPooled"
  | "shareColumns"
  | "expandColumns"
  | "dExpandColumns"
  | "packColumns"
  | "unpackColumns";

function exchange(addon: Addon): Pick<Kernels, ExchangeNames> {
  return {
    foldPooled(out, outFirst, parts, blocks, columns, lengths, precision = "float32") {
      const all = [...withGaps(parts, blocks)];
      const froms = all.map(({ from }) => (from === undefined ? data(out) : data(from)));
      const numbers = all.map(({ from, first, tree }) => {
        const width = from === undefined ? 0 : widthOf(from);
        return [first, width, tree.first, tree.count];
      });
      const operands = [data(out), outFirst, widthOf(out), froms, Int32Array.from(numbers.flat())];
      const code = precisions.indexOf(precision);
      addon.foldPooled!(...operands, out.shape[0], columns, lengths, code);
    },
    shareColumns(out, outFirst, from, fromFirst, columns, lengths) {
      const operands = [data(out), outFirst, widthOf(out), data(from), fromFirst, widthOf(from)];
      addon.shareColumns!(...operands, columns, lengths);
    },
    expandColumns(out, outFirst, from, fromFirst, columns, inverse, used) {
      const operands = [data(out), outFirst, widthOf(out), data(from), fromFirst, widthOf(from)];
      addon.expandColumns!(...operands, columns, inverse, used);
    },
    dExpandColumns(dFrom, fromFirst, dOut, outFirst, columns, inverse, used) {
      const to = [data(dFrom), fromFirst, widthOf(dFrom), dFrom.shape[0]];
      addon.dExpandColumns!(...to, data(dOut), outFirst, widthOf(dOut), columns, inverse, used);
    },
    packColumns({ buffer, byteOffset }, from, fromFirst, columns, precision) {
      const samples = from.shape[0]!;
      const bytes = packedBytes(samples, columns, precision);
      const operands = [new Uint8Array(buffer, byteOffset, bytes), data(from), fromFirst];
      const code = precisions.indexOf(precision);
      addon.packColumns!(...operands, widthOf(from), samples, columns, code);
    },
    unpackColumns(out, outFirst, { buffer, byteOffset }, columns, precision) {
      const samples = out.shape[0]!;
      const bytes = packedBytes(samples, columns, precision);
      const from = new Uint8Array(buffer, byteOffset, bytes);
      const code = precisions.indexOf(precision);
      addon.unpackColumns!(data(out), outFirst, widthOf(out), from, samples, columns, code);
    },
  };
}

/** The columns of a tensor (B, ·) with at least one sample. */
function widthOf(t: Tensor): number {
  return data(t).length / t.shape[0]!;
}

/** A part of a table, or a gap, which stands for blocks without a part. */
type PartOrGap = Omit<PooledPart, "from"> & { readonly from?: Tensor };

/** The parts, with gaps inserted so that they cover all blocks. */
function* withGaps(parts: readonly PooledPart[], blocks: number): Generator<PartOrGap> {
  let end = 0;
  for (const part of parts) {
    for (const tree of subtreesOf(end, part.tree.first - end)) yield { first: 0, tree };
    yield part;
    end = part.tree.first + part.tree.count;
  }
  for (const tree of subtreesOf(end, blocks - end)) yield { first: 0, tree };
}

type FlatNames = "foldSubtrees" | "sgd" | "adagrad" | "momentum" | "adam" | "lamb";

function flat(addon: Addon): Pick<Kernels, FlatNames> {
  const plain = { l2: 0, decay: 0 };
  const apply = (rule: RowRule, w: Tensor, state: Tensor, second: Tensor, g: Tensor) =>
    addon.applyFlat!(listRules([rule]), data(w), data(state), data(second), data(g)) === -1;
  return {
    foldSubtrees(out, parts, trees) {
      const numbers = Int32Array.from(trees.flatMap(({ first, count }) => [first, count]));
      addon.foldSubtrees!(data(out), parts.map(data), numbers);
    },
    sgd(w, g, learningRate) {
      return apply({ kind: "sgd", learningRate, ...plain }, w, w, w, g);
    },
    adagrad(w, acc, g, learningRate, epsilon) {
      return apply({ kind: "adagrad", learningRate, epsilon, ...plain }, w, acc, acc, g);
    },
    momentum(w, buffer, g, learningRate, momentum) {
      return apply({ kind: "momentum", learningRate, momentum, ...plain }, w, buffer, buffer, g);
    },
    adam(w, m, v, g, rule) {
      return apply({ ...rule, kind: "adam", l2: 0 }, w, m, v, g);
    },
    lamb(w, m, v, g, rule) {
      return apply({ ...rule, kind: "lamb", l2: 0 }, w, m, v, g);
    },
  };
}
