// The graph of a model: which block computes each value from which others, from the dense features
// and the vectors of lookups to the logits. A function of the model's options alone: it holds no
// memory. A device gives it memory and runs it (network.ts).
//
// A model calls `add` for each block in the order in which the blocks run. Backward runs in the
// opposite order. A value that several blocks read has the sum of their gradients, added up in the
// order of those blocks.
//
// A value has a row for each sample or, on the axis of a group of deduplicated features, for each
// distinct list of the group (IKJT: src/data/sessions/ikjt.ts). A block works on one axis, that of
// its inputs; one that puts values side by side gives each sample the row of its list.
//
// A node is *early* if no lookup leads to it: its forward pass runs while vectors travel to this
// device, its backward pass while their gradients travel back.

import {
  type DensePrecision,
  type Kernels,
  type LossRule,
  type LossTerm,
  type Tensor,
  usualLossTerm,
} from "../../kernels/contract/kernels.ts";
import type { Slices } from "../../kernels/contract/slices.ts";
import type { Key } from "../../ports/random.ts";
import { layoutParameters, type ParameterLayout, type ParameterSpec } from "./parameters.ts";
import type { Translate } from "./translation.ts";

/** A value of the graph. */
export interface Value {
  /** Index of its node. */
  readonly node: number;
  /** Of one sample, without the leading dimension of samples. */
  readonly shape: readonly number[];
  /** 0: it has a row for each sample; 1 + g: for each distinct list of group g. */
  readonly axis: number;
}

/** One run of the blocks over the samples of this device. B = samples. */
export interface Pass extends AxisPass {
  /** The runs over the distinct lists of each group; left out: there is no group. */
  readonly groups?: readonly GroupPass[] | undefined;
}

/** One run of blocks over the distinct lists of a group. */
export interface GroupPass extends AxisPass {
  /** (samples of the device): which list each has. */
  readonly inverse: Int32Array;
}

/** One run of blocks over the rows of one axis. */
export interface AxisPass {
  /** Rows: samples of this device, or distinct lists. */
  readonly samples: number;
  /** The slices of this device, with the rows of each. */
  readonly slices: Slices;
  /** Ids in the bag of a lookup, before dynamic ids without a row fall out. */
  lengthAt(lookup: number, row: number): number;
  /** What dropout draws its masks from; undefined: no unit is dropped. */
  readonly draw: Draw | undefined;
  /** The whole batch, in training; undefined: each sample is alone, as in an evaluation. */
  readonly batch: WholeBatch | undefined;
}

/** What blocks may ask of the whole batch, of which this device has some samples. */
export interface WholeBatch {
  /** Samples of all devices. */
  readonly samples: number;
  /**
   * out (n) = the sum over the slices of all devices, by the slice tree. `parts`: this device's
   * finished subtrees, (n) each. Devices call it in the same order. Returns a promise where it has
   * to wait for others.
   */
  sum(out: Tensor, parts: readonly Tensor[]): Promise<void> | undefined;
}

/** Selects dropped units, with the site of a dropout: a function of the samples' place. */
export interface Draw {
  readonly key: Key;
  readonly step: number;
  /** Runs of rows that have consecutive places in the batch. */
  readonly runs: readonly DrawRun[];
}

/** Rows first .. first+count-1, of which the first has the place `place` in the batch. */
export interface DrawRun {
  readonly first: number;
  readonly count: number;
  readonly place: number;
}

/** The run over the rows of an axis. */
export function passOn(pass: Pass, axis: number): AxisPass {
  return axis === 0 ? pass : groupPassOf(pass, axis);
}

/** The run over the distinct lists of the group with this axis. */
export function groupPassOf({ groups = [] }: Pass, axis: number): GroupPass {
  const own = groups[axis - 1];
  if (own === undefined) throw new RangeError(`The pass has no group ${axis - 1} of features`);
  return own;
}

/** A block at work on a device. Tensors of `Memory` have the samples of the pass. */
export interface Block {
  /** Fills `out` from `x`. Returns a promise where it has to wait for other devices. */
  forward(pass: Pass): Promise<void> | void;
  /**
   * Fills `dX` and the gradients of its parameters from `dOut`, which the block may overwrite.
   * Runs after `forward` of the same samples.
   */
  backward(pass: Pass): Promise<void> | void;
}

/** What a block works on. */
export interface Memory {
  readonly kernels: Kernels;
  /** Precision of the operands of layers. */
  readonly precision: DensePrecision;
  readonly samplesMax: number;
  /** (B, …): input i, in the shape in which the block took it. */
  x(input: number, samples: number): Tensor;
  /** Where the gradient of input i goes; undefined: nobody needs it, or `dOut` is it already. */
  dX(input: number, samples: number): Tensor | undefined;
  /** Gradients of other blocks that a block that `adds` adds to that of input i, in order. */
  others(input: number, samples: number): readonly Tensor[];
  /**
   * Input i, where its gradient is to be zero wherever it is not positive: the block that made it
   * leaves that to this one. Undefined: it does not.
   */
  reluOf(input: number, samples: number): Tensor | undefined;
  out(samples: number): Tensor;
  dOut(samples: number): Tensor;
  /** Of a block that `hasRelu`: whether `dOut` is zero already where `out` is not positive. */
  readonly isZeroed: boolean;
  /** A parameter of the block, by its name. */
  parameter(name: string): Tensor;
  /** Its gradients: one tensor for each finished subtree of slices. */
  gradients(name: string): readonly Tensor[];
}

/** A block as a model adds it. */
export interface NodeSpec {
  readonly inputs: readonly Value[];
  /** Shape of the output, of one sample. */
  readonly shape: readonly number[];
  /** @default none */
  readonly parameters?: readonly ParameterSpec[];
  /** Whether the parameters belong to the model's inputs: those lie behind all others. */
  readonly isInput?: boolean;
  /** Whether lookups write into its output before it runs. */
  readonly hasLookups?: boolean;
  /** A lookup of the feature whose lengths (`lengthAt`) it reads. @default it reads none */
  readonly lengthsOf?: number;
  /** Its axis. @default that of its inputs; without inputs, the samples */
  readonly axis?: number;
  /** Products and additions of a sample in the forward pass, in pairs. @default 0 */
  readonly products?: number;
  /**
   * Of these, those of a sample's values with each other. @default all, where there are no
   * parameters, else none
   */
  readonly ownProducts?: number;
  /** Elements of a sample that it reads and writes in the forward pass. @default 0 */
  readonly elements?: number;
  /** The most numbers that it asks the whole batch to sum at once. @default 0 */
  readonly batchSums?: number;
  /** Whether its backward pass leaves `dOut` as it is. @default false */
  readonly keepsGradient?: boolean;
  /** Inputs whose gradient is `dOut`, unchanged; only where it keeps that. @default none */
  readonly passes?: readonly number[];
  /** Whether its backward pass adds `others` to the gradients of its inputs. @default false */
  readonly adds?: boolean;
  /** Whether its gradient is zero wherever its output is not positive. @default false */
  readonly hasRelu?: boolean;
  /** Whether its backward pass zeroes a gradient by `reluOf` its input. @default false */
  readonly zeroes?: boolean;
  /**
   * Its forward pass in operators that other programs have; undefined: none of them, or nothing but
   * the vectors of its lookups.
   */
  readonly translate?: Translate;
  /** Starts the block; undefined: its output is filled from outside. */
  readonly start?: (memory: Memory) => Block;
}

export interface Node extends NodeSpec {
  readonly axis: number;
  readonly isEarly: boolean;
  /** Whether anything that leads to it takes a gradient. */
  readonly needsGradient: boolean;
}

/** Where the vector of a lookup goes. */
export interface LookupPlace {
  /** Node whose output takes it. */
  readonly node: number;
  /** Its first column. */
  readonly column: number;
}

/** What a logit is trained for: one term of the loss. */
export interface Objective extends Pick<LossTerm, "logit" | "target" | "weight"> {
  /** For reports: the label that it predicts, or the layers that it trains beside it. */
  readonly task: string;
  /** A rule of its own; left out: that of the job. */
  readonly rule?: LossRule | undefined;
}

/** The objective of a model with one logit. */
const ofLabel: Objective = { ...usualLossTerm, rule: undefined, task: "label" };

export interface Graph {
  readonly nodes: readonly Node[];
  readonly layout: ParameterLayout;
  /** The dense features, if the model has some. */
  readonly dense: Value | undefined;
  /** (K): the logits of a sample. */
  readonly output: Value;
  /** What each of them is trained for; those of labels are what the model predicts. */
  readonly objectives: readonly Objective[];
  /** For each lookup, in the order of `lookupsOf`, its place. */
  readonly places: readonly LookupPlace[];
  /** Of a sample in the forward pass, over all blocks. */
  readonly products: number;
  readonly elements: number;
  /** The most numbers that a block asks the whole batch to sum at once. */
  readonly batchSums: number;
  /** Of the products, those of a sample's values with each other: small matrices, one a sample. */
  readonly ownProducts: number;
  /** Blocks with parameters. */
  readonly layers: number;
}

/** A graph in the making. */
export class GraphBuilder {
  readonly dense: Value | undefined;
  readonly #nodes: Node[] = [];
  readonly #places: LookupPlace[] = [];
  readonly #axes: readonly number[];
  #dropouts = 0;

  /** `dense` = dense features of a sample. `axes`: of each feature; left out: all 0. */
  constructor(dense: number, axes: readonly number[] = []) {
    this.#axes = axes;
    if (dense > 0) this.dense = this.add({ inputs: [], shape: [dense] });
  }

  /** The axis of the vectors of a feature's lookups. */
  axisOf(feature: number): number {
    return this.#axes[feature] ?? 0;
  }

  /**
   * Adds a block behind all others. Returns its output.
   * @throws RangeError where inputs of a block without an axis of its own have several
   */
  add(spec: NodeSpec): Value {
    const { axis = spec.inputs[0]?.axis ?? 0 } = spec;
    const isOne = spec.axis !== undefined || spec.inputs.every((input) => input.axis === axis);
    checkShapes(isOne, "all have rows for the same samples or lists", ...spec.inputs);
    const isWhole = axis === 0 || (spec.batchSums ?? 0) === 0;
    checkShapes(isWhole, "what is summed over the batch has a row for each sample", ...spec.inputs);
    const inputs = spec.inputs.map(({ node }) => this.#at(node));
    const hasLookups = spec.hasLookups === true;
    const hasOwn = hasLookups || (spec.parameters?.length ?? 0) > 0;
    this.#nodes.push({
      ...spec,
      axis,
      isEarly: !hasLookups && inputs.every(({ isEarly }) => isEarly),
      needsGradient: hasOwn || inputs.some(({ needsGradient }) => needsGradient),
    });
    return { node: this.#nodes.length - 1, shape: spec.shape, axis };
  }

  /** Says where the vector of a lookup goes; `value` is of a node with `hasLookups`. */
  place(lookup: number, { node }: Value, column: number): void {
    this.#places[lookup] = { node, column };
  }

  /** The number of one more place where units are dropped. */
  dropoutSite(): number {
    return this.#dropouts++;
  }

  /** The whole graph. `output`: the logits (K). */
  finish(output: Value, objectives: readonly Objective[] = [ofLabel]): Graph {
    const nodes = this.#nodes;
    const parametersOf = (isInput: boolean) =>
      nodes.flatMap(({ parameters = [], ...node }) =>
        (node.isInput === true) === isInput ? parameters : [],
      );
    const ownOf = ({ products = 0, parameters = [], ownProducts }: Node) =>
      ownProducts ?? (parameters.length === 0 ? products : 0);
    return {
      nodes,
      layout: layoutParameters([...parametersOf(false), ...parametersOf(true)]),
      dense: this.dense,
      output,
      objectives,
      places: this.#places,
      products: nodes.reduce((sum, { products = 0 }) => sum + products, 0),
      elements: nodes.reduce((sum, { elements = 0 }) => sum + elements, 0),
      batchSums: Math.max(0, ...nodes.map(({ batchSums = 0 }) => batchSums)),
      ownProducts: nodes.reduce((sum, node) => sum + ownOf(node), 0),
      layers: nodes.filter(({ parameters = [] }) => parameters.length > 0).length,
    };
  }

  #at(index: number): Node {
    const node = this.#nodes[index];
    if (node === undefined) throw new RangeError(`The graph has no node ${index}`);
    return node;
  }
}

/** The same value under another shape of as many elements. Nothing is copied. */
export function reshaped(value: Value, shape: readonly number[]): Value {
  checkShapes(
    sizeOf({ shape }) === sizeOf(value),
    `(${shape.join(", ")}) has as many numbers`,
    value,
  );
  return { ...value, shape };
}

/** @throws RangeError: what was expected of the values that a block takes, unless they `fit` */
export function checkShapes(fit: boolean, expected: string, ...values: readonly Value[]): void {
  if (fit) return;
  const shapes = values.map(({ shape }) => `(${shape.join(", ")})`).join(" and ");
  throw new RangeError(`expected that ${expected}, got ${shapes}`);
}

/** Elements of a value of one sample. */
export function sizeOf({ shape }: Pick<Value, "shape">): number {
  return shape.reduce((product, extent) => product * extent, 1);
}
