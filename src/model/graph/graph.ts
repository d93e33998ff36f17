// The graph of a model: which block computes each value from which inputs, from the dense features
// and the vectors of lookups to the logits. It is a function of the model's options alone and holds
// no tensors; a device allocates them and runs the graph (network.ts).
//
// A model calls `add` for each block, in forward order. The backward pass runs in the opposite
// order. The gradient of a value that several blocks read is the sum of their gradients, in forward
// order of those blocks.
//
// A value has a row for each sample or, on the axis of a group of deduplicated features, for each
// distinct list of the group (IKJT: src/data/sessions/ikjt.ts). A block works on one axis, that of
// its inputs; only `sideBySide` takes values of several axes, and gives each sample the row of its
// list.
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
  /** Shape for one sample, without the leading dimension of samples. */
  readonly shape: readonly number[];
  /** 0: a row for each sample; 1 + g: a row for each distinct list of group g. */
  readonly axis: number;
}

/** One forward and backward pass over the samples of this device. B = samples. */
export interface Pass extends AxisPass {
  /** The passes over the distinct lists of each group; left out: there is no group. */
  readonly groups?: readonly GroupPass[] | undefined;
}

/** One pass over the distinct lists of a group. */
export interface GroupPass extends AxisPass {
  /** (samples of the device): the index of each sample's list. */
  readonly inverse: Int32Array;
}

/** One pass over the rows of one axis. */
export interface AxisPass {
  /** Rows: samples of this device, or distinct lists. */
  readonly samples: number;
  /** The slices of this device, with the rows of each. */
  readonly slices: Slices;
  /** Ids in the bag of a lookup, counted before dynamic ids without a row are dropped. */
  lengthAt(lookup: number, row: number): number;
  /** Seeds of the dropout masks; undefined: no dropout. */
  readonly draw: Draw | undefined;
  /** The whole batch in training; undefined: samples are independent, as in evaluation. */
  readonly batch: WholeBatch | undefined;
}

/** Operations over the whole batch, of which this device has some samples. */
export interface WholeBatch {
  /** Samples of all devices. */
  readonly samples: number;
  /**
   * Writes to `out` (n) the sum over the slices of all devices, in the order of the slice tree.
   * `parts`: this device's finished subtrees, (n) each. All devices must call it in the same order.
   * Returns a promise if it has to wait for other devices.
   */
  sum(out: Tensor, parts: readonly Tensor[]): Promise<void> | undefined;
}

/**
 * Determines the dropped units, together with a dropout site: a function of the samples' positions
 * in the batch, so that the placement does not change them.
 */
export interface Draw {
  readonly key: Key;
  readonly step: number;
  /** Runs of rows with consecutive positions in the batch. */
  readonly runs: readonly DrawRun[];
}

/** Rows first .. first+count-1; the first has the position `place` in the batch. */
export interface DrawRun {
  readonly first: number;
  readonly count: number;
  readonly place: number;
}

/** The pass over the rows of an axis. */
export function passOn(pass: Pass, axis: number): AxisPass {
  return axis === 0 ? pass : groupPassOf(pass, axis);
}

/** The pass over the distinct lists of the group with this axis. */
export function groupPassOf({ groups = [] }: Pass, axis: number): GroupPass {
  const own = groups[axis - 1];
  if (own === undefined) throw new RangeError(`The pass has no group ${axis - 1} of features`);
  return own;
}

/** A block on a device. Tensors of `Memory` have the samples of the pass as leading dimension. */
export interface Block {
  /** Fills `out` from `x`. Returns a promise if it has to wait for other devices. */
  forward(pass: Pass): Promise<void> | void;
  /**
   * Fills `dX` and the gradients of its parameters from `dOut`, which the block may overwrite.
   * Called after `forward` of the same samples.
   */
  backward(pass: Pass): Promise<void> | void;
}

/** The tensors and kernels that a block uses. */
export interface Memory {
  readonly kernels: Kernels;
  /** Precision of the operands of linear layers. */
  readonly precision: DensePrecision;
  readonly samplesMax: number;
  /** Input i, (B, …), in the shape in which the block took it. */
  x(input: number, samples: number): Tensor;
  /**
   * Tensor for the gradient of input i; undefined: no reader needs it, or `dOut` already is the
   * gradient.
   */
  dX(input: number, samples: number): Tensor | undefined;
  /** Gradients of input i from other blocks; a block that `adds` adds them to its own, in order. */
  others(input: number, samples: number): readonly Tensor[];
  /**
   * Input i, if this block must zero the gradient wherever the input is not positive, on behalf of
   * the block that made the input. Undefined: it must not.
   */
  reluOf(input: number, samples: number): Tensor | undefined;
  out(samples: number): Tensor;
  dOut(samples: number): Tensor;
  /** For a block that `hasRelu`: whether `dOut` is already zero where `out` is not positive. */
  readonly isZeroed: boolean;
  /** A parameter of the block, by its name. */
  parameter(name: string): Tensor;
  /** Gradients of a parameter: one tensor for each finished subtree of slices. */
  gradients(name: string): readonly Tensor[];
}

/** The description of a block, as a model adds it. */
export interface NodeSpec {
  readonly inputs: readonly Value[];
  /** Shape of the output for one sample. */
  readonly shape: readonly number[];
  /** @default none */
  readonly parameters?: readonly ParameterSpec[];
  /**
   * Whether the parameters belong to the model's inputs: these come after all other trained
   * parameters.
   */
  readonly isInput?: boolean;
  /** Whether lookups write into its output before it runs. */
  readonly hasLookups?: boolean;
  /**
   * A lookup of the feature from which the block reads lengths (`lengthAt`). @default it reads none
   */
  readonly lengthsOf?: number;
  /** The block's axis. @default that of its inputs; without inputs, the samples */
  readonly axis?: number;
  /** Multiply-adds per sample in the forward pass. @default 0 */
  readonly products?: number;
  /**
   * Part of `products` that multiplies a sample's values with each other. @default all, where there
   * are no parameters, else none
   */
  readonly ownProducts?: number;
  /** Elements per sample that the block reads and writes in the forward pass. @default 0 */
  readonly elements?: number;
  /** The most numbers that the block sums over the whole batch in one call. @default 0 */
  readonly batchSums?: number;
  /** Whether the backward pass leaves `dOut` unchanged. @default false */
  readonly keepsGradient?: boolean;
  /** Inputs with `dOut`, unchanged, as gradient; needs `keepsGradient`. @default none */
  readonly passes?: readonly number[];
  /** Whether the backward pass adds `others` to the gradients of its inputs. @default false */
  readonly adds?: boolean;
  /**
   * Whether a ReLU ends the block: its gradient is zero wherever its output is not positive.
   * @default false
   */
  readonly hasRelu?: boolean;
  /** Whether the backward pass can zero an input's gradient by `reluOf`. @default false */
  readonly zeroes?: boolean;
  /**
   * Translates the forward pass to ONNX operators; undefined: the block has no translation, or
   * consists only of the vectors of its lookups.
   */
  readonly translate?: Translate;
  /** Starts the block; undefined: its output is filled from outside. */
  readonly start?: (memory: Memory) => Block;
}

export interface Node extends NodeSpec {
  readonly axis: number;
  readonly isEarly: boolean;
  /** Whether the node, or any node that leads to it, is trained. */
  readonly needsGradient: boolean;
}

/** The destination of a lookup's vector. */
export interface LookupPlace {
  /** Node with the output that holds the vector. */
  readonly node: number;
  /** Its first column. */
  readonly column: number;
}

/** A training objective of a logit: one term of the loss. */
export interface Objective extends Pick<LossTerm, "logit" | "target" | "weight"> {
  /**
   * For reports: the label that the logit predicts, or the layers that an auxiliary logit trains.
   */
  readonly task: string;
  /** Loss rule of this objective; left out: the rule of the job. */
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
  /**
   * Training objectives of the logits. Logits with labels as targets are the model's predictions.
   */
  readonly objectives: readonly Objective[];
  /** The destination of each lookup, in the order of `lookupsOf`. */
  readonly places: readonly LookupPlace[];
  /** Multiply-adds per sample in the forward pass, over all blocks. */
  readonly products: number;
  readonly elements: number;
  /** The most numbers that a block sums over the whole batch in one call. */
  readonly batchSums: number;
  /**
   * Part of `products` that multiplies a sample's values with each other: small matrices, one per
   * sample.
   */
  readonly ownProducts: number;
  /** Blocks with parameters. */
  readonly layers: number;
}

/** Builds a graph, block by block. */
export class GraphBuilder {
  /** The dense features; undefined: the job has none. */
  readonly dense: Value | undefined;
  readonly #nodes: Node[] = [];
  readonly #places: LookupPlace[] = [];
  readonly #axes: readonly number[];
  #dropouts = 0;

  /** `dense`: number of dense features. `axes`: the axis of each feature; left out: all 0. */
  constructor(dense: number, axes: readonly number[] = []) {
    this.#axes = axes;
    if (dense > 0) this.dense = this.add({ inputs: [], shape: [dense] });
  }

  /** The axis of the vectors of a feature's lookups. */
  axisOf(feature: number): number {
    return this.#axes[feature] ?? 0;
  }

  /**
   * Appends a block. Returns its output.
   * @throws RangeError if a block that declares no axis has inputs of several axes
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

  /** Sets the destination of a lookup's vector; `value` must belong to a node with `hasLookups`. */
  place(lookup: number, { node }: Value, column: number): void {
    this.#places[lookup] = { node, column };
  }

  /** Allocates the number of a new dropout site. */
  dropoutSite(): number {
    return this.#dropouts++;
  }

  /** Finishes the graph. `output`: the logits (K). */
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

/** The same value with another shape of equal size. Nothing is copied. */
export function reshape(value: Value, shape: readonly number[]): Value {
  checkShapes(
    sizeOf({ shape }) === sizeOf(value),
    `(${shape.join(", ")}) has as many numbers`,
    value,
  );
  return { ...value, shape };
}

/**
 * Checks the inputs of a block. @throws RangeError with `expected` and the shapes, unless they
 * `fit`
 */
export function checkShapes(fit: boolean, expected: string, ...values: readonly Value[]): void {
  if (fit) return;
  const shapes = values.map(({ shape }) => `(${shape.join(", ")})`).join(" and ");
  throw new RangeError(`expected that ${expected}, got ${shapes}`);
}

/** Elements of a value per sample. */
export function sizeOf({ shape }: Pick<Value, "shape">): number {
  return shape.reduce((product, extent) => product * extent, 1);
}
