// The tensors of a DLRM as two other programs name and order them, mapped to Osiris's own:
//
//   dlrm      facebookresearch/dlrm, dlrm_s_pytorch.py: emb_l.K, bot_l.I, top_l.I (layers at even
//             indices); dot products: the lower triangle, row by row, as in Osiris
//   torchrec  torchrec/models/dlrm.py: DLRM and DLRM_DCN; dot products: the upper triangle
//
// Both put the bottom MLP's output first, then one vector for each embedding. Where the order of
// the dot products differs, so does the column order of the first layer after them: `columns`.
//
// D = columns of a vector, F = embeddings.

import { featuresOf, InvalidOptionError, type ModelSpec } from "../../../internal.ts";

/** Other programs whose tensor names are known. */
export const foreignKinds = ["dlrm", "torchrec"] as const;

/** One of these programs. */
export type ForeignKind = (typeof foreignKinds)[number];

/** A tensor of the other program. */
export interface ForeignTensor {
  readonly name: string;
  readonly shape: readonly number[];
  /** Osiris's counterpart: the rows of a table, by index, or a dense parameter, by name. */
  readonly own: { readonly table: number } | { readonly parameter: string };
  /** Column c of this tensor is Osiris's column columns[c]. Left out: the same column order. */
  readonly columns?: Int32Array;
}

/** A model of a kind that the other programs have too. */
type Counterpart = Extract<ModelSpec, { kind: "dlrm" | "dcnV2" }>;

const programs: Readonly<Record<ForeignKind, string>> = {
  dlrm: "facebookresearch/dlrm",
  torchrec: "TorchRec",
};

/**
 * The model's tensors in the other program, in the order of their registration. `tables`: the table
 * names in the other program's order, if that differs from the model's.
 * @throws InvalidOptionError naming the part of the model that the other program lacks
 */
export function foreignTensors(
  kind: ForeignKind,
  model: ModelSpec,
  tables?: readonly string[],
): ForeignTensor[] {
  const supported = checked(kind, model);
  const order = orderOf(kind, supported, tables);
  return kind === "dlrm" ? ofDlrm(supported, order) : ofTorchRec(supported, order);
}

function checked(kind: ForeignKind, model: ModelSpec): Counterpart {
  const refuse = (what: string) => {
    const message = `Expected a model that ${programs[kind]} has, got one ${what}`;
    return new InvalidOptionError(
      "model",
      `${message}; the format \`safetensors\` has every model`,
    );
  };
  const isKnown = model.kind === "dlrm" || (kind === "torchrec" && model.kind === "dcnV2");
  if (!isKnown) throw refuse(`of the kind \`${model.kind}\``);
  const { dense, bottom, top, tables, groups, batchNorm } = model;
  const features = featuresOf(model);
  const dims = new Set(tables.map(({ dim }) => dim));
  const [dim] = dims;
  if (dense === 0 || bottom.length === 0) throw refuse("without a bottom MLP");
  if (tables.length === 0) throw refuse("without tables");
  if (batchNorm === true) throw refuse("with `batchNorm`");
  if (groups !== undefined) throw refuse("with `groups` of features");
  if (dims.size > 1 || dim !== bottom.at(-1) || (model.dim ?? dim) !== dim) {
    throw refuse("whose vectors are not all as wide as the bottom MLP's output");
  }
  const isOne = new Set(features.map(({ table }) => table)).size === tables.length;
  if (!isOne || features.length !== tables.length) {
    throw refuse("whose tables do not belong to one feature each");
  }
  for (const { name, positions, vectors = 1, encoder, pooling } of features) {
    if (positions > 1 || vectors > 1 || encoder !== undefined || pooling === "none") {
      throw refuse(`whose feature \`${name}\` has several vectors, or is a sequence`);
    }
    if (kind === "dlrm" && pooling !== "sum") throw refuse(`whose feature \`${name}\` is a mean`);
  }
  const dynamic = tables.find((table) => table.dynamic !== undefined);
  if (dynamic !== undefined) throw refuse(`whose table \`${dynamic.name}\` has dynamic ids`);
  if (kind === "torchrec" && top.length < 2) throw refuse("whose top MLP has one layer");
  if (model.kind === "dcnV2") {
    if (model.structure !== "stacked") throw refuse("whose cross layers are beside the top MLP");
    if (model.rank === undefined) throw refuse("whose cross layers have whole weights (no `rank`)");
  } else if (
    model.interaction === "dot+cat" ||
    (kind === "torchrec" && model.interaction === "cat")
  ) {
    throw refuse(`with \`interaction: "${model.interaction}"\``);
  }
  return model;
}

/** Indices of the model's features, in the other program's order. */
function orderOf(
  kind: ForeignKind,
  model: Counterpart,
  tables: readonly string[] | undefined,
): number[] {
  const features = featuresOf(model);
  if (tables === undefined) return [...features.keys()];
  const order = tables.flatMap((name) => {
    const at = features.findIndex(({ table }) => model.tables[table]?.name === name);
    return at < 0 ? [] : [at];
  });
  const isSame = order.every((feature, i) => feature === i);
  if (order.length < features.length || (model.kind === "dcnV2" && !isSame)) {
    const names = model.tables.map(({ name }) => name).join(", ");
    const message = `Expected the tables of ${programs[kind]} to be those of the model, ${names}`;
    throw new InvalidOptionError(
      "model.tables",
      `${message} in this order, got ${tables.join(", ")}`,
    );
  }
  return order;
}

/**
 * The weights and biases of an MLP in the other program. `columns`: column order of the first
 * layer.
 */
function layersOf(
  widths: readonly number[],
  inputs: number,
  names: { readonly own: string; readonly there: (layer: number) => string },
  columns?: Int32Array,
): ForeignTensor[] {
  return widths.flatMap((outputs, i): ForeignTensor[] => {
    const [name, foreign] = [`${names.own}.${i}`, names.there(i)];
    const permuted = i === 0 && columns !== undefined ? { columns } : {};
    const shape = [outputs, i === 0 ? inputs : (widths[i - 1] ?? 0)];
    return [
      { name: `${foreign}.weight`, shape, own: { parameter: `${name}.weight` }, ...permuted },
      { name: `${foreign}.bias`, shape: [outputs], own: { parameter: `${name}.bias` } },
    ];
  });
}

function tablesOf(
  model: Counterpart,
  order: readonly number[],
  nameOf: (name: string, index: number) => string,
): ForeignTensor[] {
  const features = featuresOf(model);
  return order.map((feature, i): ForeignTensor => {
    const table = features[feature]?.table ?? 0;
    const { name = "", rows = 0, dim = 0 } = model.tables[table] ?? {};
    return { name: nameOf(name, i), shape: [rows, dim], own: { table } };
  });
}

function ofDlrm(model: Counterpart, order: readonly number[]): ForeignTensor[] {
  return [
    ...tablesOf(model, order, (_, i) => `emb_l.${i}.weight`),
    ...layersOf(model.bottom, model.dense, { own: "bottom", there: (i) => `bot_l.${2 * i}` }),
    ...layersOf(model.top, inputsOf(model), { own: "top", there: (i) => `top_l.${2 * i}` }),
  ];
}

function ofTorchRec(model: Counterpart, order: readonly number[]): ForeignTensor[] {
  const bags = "sparse_arch.embedding_bag_collection.embedding_bags";
  const last = model.top.length - 1;
  const columns = model.kind === "dlrm" ? columnsOf(order, model.tables[0]?.dim ?? 0) : undefined;
  return [
    ...tablesOf(model, order, (name) => `${bags}.${name}.weight`),
    ...layersOf(model.bottom, model.dense, {
      own: "bottom",
      there: (i) => `dense_arch.model._mlp.${i}._linear`,
    }),
    ...crossOf(model),
    ...layersOf(
      model.top,
      inputsOf(model),
      {
        own: "top",
        there: (i) => (i === last ? "over_arch.model.1" : `over_arch.model.0._mlp.${i}._linear`),
      },
      columns,
    ),
  ];
}

/** The cross layers of DLRM_DCN: x0 * (W (V x) + b) + x. */
function crossOf(model: Counterpart): ForeignTensor[] {
  if (model.kind !== "dcnV2") return [];
  const [width, rank] = [inputsOf(model), model.rank ?? 0];
  const layers = Array.from({ length: model.crossLayers }, (_, i) => i);
  const of = (list: string, shape: readonly number[], own: string) =>
    layers.map((i): ForeignTensor => {
      const name = `inter_arch.crossnet.${list}.${i}`;
      return { name, shape, own: { parameter: `cross.${i}.${own}` } };
    });
  return [
    ...of("W_kernels", [width, rank], "cross.weight"),
    ...of("V_kernels", [rank, width], "narrow.weight"),
    ...of("bias", [width], "cross.bias"),
  ];
}

/** Number of inputs of the first layer after the interaction. */
function inputsOf(model: Counterpart): number {
  const [dim, vectors] = [model.tables[0]?.dim ?? 0, model.tables.length + 1];
  if (model.kind === "dcnV2" || model.interaction === "cat") return vectors * dim;
  return dim + (vectors * (vectors - 1)) / 2;
}

/**
 * Osiris's column for each column of TorchRec's first layer after the interaction. TorchRec orders
 * the pairs (i, j), i < j, of vectors row by row above the diagonal; Osiris row by row below it.
 */
export function columnsOf(order: readonly number[], dim: number): Int32Array {
  // Vector 0 is the bottom MLP's output.
  const vectors = [0, ...order.map((feature) => feature + 1)];
  const columns = Array.from({ length: dim }, (_, column) => column);
  for (const [i, first] of vectors.entries()) {
    for (const second of vectors.slice(i + 1)) {
      const [low, high] = first < second ? [first, second] : [second, first];
      columns.push(dim + (high * (high - 1)) / 2 + low);
    }
  }
  return Int32Array.from(columns);
}

/**
 * A parameter with its columns permuted: column c of the result is column `columns[c]` of `values`.
 * The bits of NaN are kept. Without `columns`: `values` themselves.
 */
export function permuted(values: Float32Array, columns: Int32Array | undefined): Float32Array {
  if (columns === undefined) return values;
  const from = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const to = new Uint32Array(values.length);
  for (let row = 0; row < to.length; row += columns.length) {
    for (const [column, source] of columns.entries()) to[row + column] = from[row + source] ?? 0;
  }
  return new Float32Array(to.buffer);
}

/** The permutation of columns that undoes `columns`. */
export function inverseOf(columns: Int32Array): Int32Array {
  const inverse = new Int32Array(columns.length);
  for (const [column, source] of columns.entries()) inverse[source] = column;
  return inverse;
}

/** The program that wrote a state dict: another program, or Osiris itself. */
export type NamesKind = ForeignKind | "osiris";

/** All programs whose state dicts are recognised. */
export const namesKinds: readonly NamesKind[] = ["dlrm", "torchrec", "osiris"];

/** Tensor names without wrapper prefixes, mapped to the names in the file. */
export interface Recognised {
  readonly kind: NamesKind;
  readonly names: ReadonlyMap<string, string>;
}

const roots: Readonly<Record<NamesKind, RegExp>> = {
  dlrm: /(?:^|\.)((?:emb_l|bot_l|top_l|v_W_l)\..+)$/,
  torchrec: /(?:^|\.)((?:sparse_arch|dense_arch|inter_arch|over_arch)\..+)$/,
  osiris: /^(.+)$/,
};
const wrapper = /(?<=^|\.)(?:module|_orig_mod)\./g;

/** The program that wrote a state dict with these names; undefined: an unknown program. */
export function recognise(names: readonly string[]): NamesKind | undefined {
  if (names.some((name) => /(?:^|\.)emb_l\.\d+\./.test(name))) return "dlrm";
  if (names.some((name) => roots.torchrec.test(name))) return "torchrec";
  return names.some((name) => /^embedding_bags\..+\.weight$/.test(name)) ? "osiris" : undefined;
}

/**
 * Strips wrapper prefixes off a program's names. A name that does not match the program's form is
 * kept unchanged.
 */
export function unwrapped(kind: NamesKind, names: readonly string[]): Recognised {
  const namesByForeign = new Map<string, string>();
  for (const name of names) {
    const found = roots[kind].exec(name)?.[1] ?? name;
    const plain = kind === "dlrm" ? found.replaceAll(wrapper, "") : found;
    namesByForeign.set(namesByForeign.has(plain) ? name : plain, name);
  }
  return { kind, names: namesByForeign };
}
