// The DLRM on one device (Naumov et al., arXiv 1906.00091): everything except the tables' rows. The
// step writes the tables' vectors into `x` (B,F,D), and reads their gradients from `dX`.
//
// B = samples, F = features with a vector (bottom output first, if there is one), D = dim.

import type { Kernels, Tensor } from "../kernels/contract/kernels.ts";
import type { Slices } from "../kernels/contract/slices.ts";
import {
  backwardMlp,
  createMlp,
  type Dropout,
  forwardMlp,
  type Mlp,
  type MlpGradients,
  mlpGradients,
} from "./mlp.ts";
import type { ModelSpec } from "./options.ts";
import { layoutParameters, type ParameterLayout } from "./parameters.ts";

/** The shape of a model: a function of its options alone. */
export interface ModelShape {
  readonly layout: ParameterLayout;
  readonly hasDense: boolean;
  readonly features: number;
  readonly dim: number;
  /** Number of leading vectors that the interaction copies, and whether it adds dot products. */
  readonly copied: number;
  readonly dots: boolean;
  /** Widths of both MLPs, from their inputs on. */
  readonly bottom: readonly number[];
  readonly top: readonly number[];
}

export interface Dlrm {
  readonly kernels: Kernels;
  readonly shape: ModelShape;
  /** All dense parameters, flat. */
  readonly flat: Tensor;
  readonly bottom: Mlp;
  readonly top: Mlp;
  /** (Bmax,F,D): the interacting vectors. The step fills in the tables' vectors. */
  readonly x: Tensor;
  readonly dX: Tensor;
  readonly interaction: Tensor;
  /** (Bmax,D): the gradient of the bottom's output. */
  readonly dBottom: Tensor;
}

export interface DlrmGradients {
  readonly bottom: MlpGradients;
  readonly top: MlpGradients;
}

export function shapeOf(spec: ModelSpec): ModelShape {
  const hasDense = spec.dense > 0;
  const features = spec.tables.length + (hasDense ? 1 : 0);
  const dim = spec.tables[0]?.dim ?? spec.bottom.at(-1) ?? 0;
  // With a single vector there are no pairs: copy it, or the top would get no input.
  const dots = spec.interaction !== "cat" && features > 1;
  const copied = spec.interaction === "dot" && dots ? (hasDense ? 1 : 0) : features;
  const width = copied * dim + (dots ? (features * (features - 1)) / 2 : 0);
  const bottom = hasDense ? [spec.dense, ...spec.bottom] : [];
  const top = [width, ...spec.top];
  const layout = layoutParameters([
    { name: "bottom", widths: bottom },
    { name: "top", widths: top },
  ]);
  return { layout, hasDense, features, dim, copied, dots, bottom, top };
}

/** A model for batches of at most `samplesMax` samples on this device; parameters are zero. */
export function createDlrm(kernels: Kernels, spec: ModelSpec, samplesMax: number): Dlrm {
  const shape = shapeOf(spec);
  const flat = kernels.tensor([shape.layout.length]);
  const { precision } = spec;
  const common = { kernels, precision, flat, layout: shape.layout, samplesMax };
  return {
    kernels,
    shape,
    flat,
    bottom: createMlp({ ...common, name: "bottom", widths: shape.bottom, reluLast: true }),
    top: createMlp({ ...common, name: "top", widths: shape.top, reluLast: false }),
    x: kernels.tensor([samplesMax, shape.features, shape.dim]),
    dX: kernels.tensor([samplesMax, shape.features, shape.dim]),
    interaction: kernels.tensor([samplesMax, shape.top[0] ?? 0]),
    dBottom: kernels.tensor([samplesMax, shape.dim]),
  };
}

/** The layers' parts of flat gradients, one flat tensor for each finished subtree. */
export function gradientsOf(model: Dlrm, flats: readonly Tensor[]): DlrmGradients {
  const { kernels, shape } = model;
  const of = (name: string, mlp: Mlp) =>
    mlpGradients(kernels, name, mlp.layers.length, shape.layout, flats);
  return { bottom: of("bottom", model.bottom), top: of("top", model.top) };
}

/** Writes the bottom MLP's output (B,D) into the first feature of `x`. */
export function forwardBottom(model: Dlrm, dense: Tensor): void {
  if (!model.shape.hasDense) return;
  const { kernels, shape } = model;
  const samples = dense.shape[0] ?? 0;
  const out = forwardMlp(model.bottom, dense);
  kernels.copyColumns(columnsOf(model, model.x, samples), 0, out, 0, shape.dim);
}

/** Backpropagates the first feature of `dX` to the bottom's parameters. */
export function backwardBottom(
  model: Dlrm,
  dense: Tensor,
  slices: Slices,
  gradients: DlrmGradients,
): void {
  if (!model.shape.hasDense) return;
  const { kernels, shape } = model;
  const samples = dense.shape[0] ?? 0;
  const d = kernels.part(model.dBottom, 0, samples);
  kernels.copyColumns(d, 0, columnsOf(model, model.dX, samples), 0, shape.dim);
  backwardMlp(model.bottom, d, dense, slices, gradients.bottom, { needsInput: false });
}

/** Logits (B,1) from the vectors in `x`. */
export function forwardTop(model: Dlrm, samples: number, dropout?: Dropout): Tensor {
  const { kernels, shape } = model;
  const x = kernels.part(model.x, 0, samples);
  const interaction = kernels.part(model.interaction, 0, samples);
  kernels.interact(interaction, x, shape.copied, shape.dots);
  return forwardMlp(model.top, interaction, dropout);
}

/** (Bmax,1): the logits of the last forward. */
export function logitsOf(model: Dlrm): Tensor {
  const last = model.top.layers.at(-1);
  if (last === undefined) throw new RangeError("The top MLP has no layer");
  return last.out;
}

/** Fills `dX` (B,F,D) and the top's gradients from dLogits (B,1), which it overwrites. */
export function backwardTop(
  model: Dlrm,
  dLogits: Tensor,
  slices: Slices,
  gradients: DlrmGradients,
  dropout?: Dropout,
): void {
  const { kernels, shape } = model;
  const samples = dLogits.shape[0] ?? 0;
  const interaction = kernels.part(model.interaction, 0, samples);
  const options = { needsInput: true, dropout };
  const d = backwardMlp(model.top, dLogits, interaction, slices, gradients.top, options);
  const dX = kernels.part(model.dX, 0, samples);
  kernels.dInteract(dX, d, kernels.part(model.x, 0, samples), shape.copied, shape.dots);
}

/** `x` or `dX` as (B, F*D), to move vectors in and out by columns. */
export function columnsOf(model: Dlrm, x: Tensor, samples: number): Tensor {
  return model.kernels.reshape(x, [samples, model.shape.features * model.shape.dim]);
}

/** First column of table `table` (index in the job) in `columnsOf`. */
export function columnOf(shape: ModelShape, table: number): number {
  return (table + (shape.hasDense ? 1 : 0)) * shape.dim;
}
