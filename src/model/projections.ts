// Projections: rows of tables that are not as wide as the interaction's vectors become vectors of
// its width. A projection is one linear layer without a bias over a feature's row, or over the rows
// of a group's features side by side (Wukong's embedding layer, arXiv 2403.02545, section 3.2: an
// important feature has several vectors, unimportant ones share some).
//
// B = samples, L = positions of the feature, I = columns in, O = columns out.

import type { DensePrecision, Kernels, Tensor } from "../kernels/contract/kernels.ts";
import type { Slices } from "../kernels/contract/slices.ts";
import type { ParameterLayout } from "./parameters.ts";
import { parameterIn } from "./parameters.ts";

/** The shape of a projection: a function of the model's options. */
export interface ProjectionShape {
  /** Name of the feature or group. */
  readonly name: string;
  /** L: 1, or the positions of an unpooled feature, which share the weights. */
  readonly positions: number;
  /** I and O, of one position. */
  readonly inputs: number;
  readonly outputs: number;
  /** First column of its vectors in the model's `x`. */
  readonly column: number;
}

export interface Projection extends ProjectionShape {
  readonly kernels: Kernels;
  readonly precision: DensePrecision;
  /** (O,I) */
  readonly weight: Tensor;
  /** (Bmax, L*I): the rows. The step fills them in. */
  readonly rows: Tensor;
  readonly dRows: Tensor;
  /** (Bmax, L*O) */
  readonly out: Tensor;
  readonly dOut: Tensor;
  /** (O): zeros. */
  readonly bias: Tensor;
}

/** Gradients of a projection: one tensor for each finished subtree of slices. */
export interface ProjectionGradient {
  /** (O,I) */
  readonly dWeight: readonly Tensor[];
  /** (O): what the kernel adds up for a bias, which no code reads. */
  readonly dBias: readonly Tensor[];
}

/** The name of a projection's parameter. */
export function weightNameOf({ name }: Pick<ProjectionShape, "name">): string {
  return `projections.${name}.weight`;
}

export function createProjection(
  shape: ProjectionShape,
  common: {
    readonly kernels: Kernels;
    readonly precision: DensePrecision;
    readonly flat: Tensor;
    readonly layout: ParameterLayout;
    readonly samplesMax: number;
  },
): Projection {
  const { kernels, precision, flat, layout, samplesMax } = common;
  const { positions, inputs, outputs } = shape;
  return {
    ...shape,
    kernels,
    precision,
    weight: parameterIn(kernels, flat, layout, weightNameOf(shape)),
    rows: kernels.tensor([samplesMax, positions * inputs]),
    dRows: kernels.tensor([samplesMax, positions * inputs]),
    out: kernels.tensor([samplesMax, positions * outputs]),
    dOut: kernels.tensor([samplesMax, positions * outputs]),
    bias: kernels.tensor([outputs]),
  };
}

/** The parts of flat gradients that belong to a projection. */
export function projectionGradient(
  { kernels, outputs, ...shape }: Projection,
  layout: ParameterLayout,
  flats: readonly Tensor[],
): ProjectionGradient {
  return {
    dWeight: flats.map((flat) => parameterIn(kernels, flat, layout, weightNameOf(shape))),
    dBias: flats.map(() => kernels.tensor([outputs])),
  };
}

/** Writes the vectors (B, L*O) of the projection into its columns of `x`. */
export function forwardProjection(own: Projection, x: Tensor): void {
  const { kernels, weight, bias, precision, column } = own;
  const { rows, out, wide } = shapedFor(own, x.shape[0] ?? 0);
  kernels.linear(out, rows, weight, bias, false, precision);
  kernels.copyColumns(x, column, kernels.reshape(out, wide), 0, wide[1] ?? 0);
}

/** Backpropagates its columns of `dX` to its weight and to the gradients of its rows, `dRows`. */
export function backwardProjection(
  own: Projection,
  dX: Tensor,
  slices: Slices,
  { dWeight, dBias }: ProjectionGradient,
): void {
  const { kernels, weight, precision, column, positions } = own;
  const { rows, dRows, dOut, wide } = shapedFor(own, dX.shape[0] ?? 0);
  kernels.copyColumns(kernels.reshape(dOut, wide), 0, dX, column, wide[1] ?? 0);
  const bounds = slices.bounds.map((sample) => positions * sample);
  kernels.dLinearWeight(dWeight, dBias, dOut, rows, { ...slices, bounds }, precision);
  kernels.dLinearInput(dRows, dOut, weight, precision);
}

/** The tensors of `samples` samples, with a row for each position. */
function shapedFor(own: Projection, samples: number) {
  const { kernels, positions, inputs, outputs } = own;
  const count = samples * positions;
  return {
    rows: kernels.reshape(own.rows, [count, inputs]),
    dRows: kernels.reshape(own.dRows, [count, inputs]),
    out: kernels.reshape(own.out, [count, outputs]),
    dOut: kernels.reshape(own.dOut, [count, outputs]),
    wide: [samples, positions * outputs],
  };
}
