// The DLRM on one device (Naumov et al., arXiv 1906.00091): everything except the tables' rows. The
// step writes the vectors of lookups where `vectorsOf` says, and reads their gradients from where
// `gradientsAt` says.
//
// B = samples, W = columns of all interacting vectors side by side: the bottom's output, if there
// is one, then the features, then the groups of features. Where the interaction takes dot products
// they are F vectors of D columns, W = F*D.

import type { Kernels, Tensor } from "../kernels/contract/kernels.ts";
import type { Slices } from "../kernels/contract/slices.ts";
import { featuresOf } from "./features.ts";
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
import {
  backwardProjection,
  createProjection,
  forwardProjection,
  type Projection,
  type ProjectionGradient,
  type ProjectionShape,
  projectionGradient,
  weightNameOf,
} from "./projections.ts";

/** Where the vector of a lookup goes. */
export interface LookupPlace {
  /** Index of the projection that takes it; undefined: it interacts as it is. */
  readonly projection: number | undefined;
  /** Its first column, of the projection's rows or of `x`. */
  readonly column: number;
}

/** The shape of a model: a function of its options alone. */
export interface ModelShape {
  readonly layout: ParameterLayout;
  readonly hasDense: boolean;
  /** F and D, where there are dot products. */
  readonly features: number;
  readonly dim: number;
  /** W */
  readonly width: number;
  /** For each lookup, in the order of `lookupsOf`, its place. */
  readonly places: readonly LookupPlace[];
  readonly projections: readonly ProjectionShape[];
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
  readonly projections: readonly Projection[];
  /** (Bmax,W): the interacting vectors. */
  readonly x: Tensor;
  readonly dX: Tensor;
  readonly interaction: Tensor;
  /** (Bmax,D): the gradient of the bottom's output. */
  readonly dBottom: Tensor;
}

export interface DlrmGradients {
  readonly bottom: MlpGradients;
  readonly top: MlpGradients;
  readonly projections: readonly ProjectionGradient[];
}

export function shapeOf(spec: ModelSpec): ModelShape {
  const hasDense = spec.dense > 0;
  const dim = spec.dim ?? spec.bottom.at(-1) ?? spec.tables[0]?.dim ?? 0;
  const { width, places, projections } = placesIn(spec, hasDense ? (spec.bottom.at(-1) ?? 0) : 0);
  const features = Math.floor(width / dim);
  // With a single vector there are no pairs: copy it, or the top would get no input.
  const dots = spec.interaction !== "cat" && features > 1;
  const copied = spec.interaction === "dot" && dots ? (hasDense ? 1 : 0) : features;
  const inputs = dots ? copied * dim + (features * (features - 1)) / 2 : width;
  const bottom = hasDense ? [spec.dense, ...spec.bottom] : [];
  const top = [inputs, ...spec.top];
  const layout = layoutParameters(
    [
      { name: "bottom", widths: bottom },
      { name: "top", widths: top },
    ],
    projections.map((own) => ({ ...own, name: weightNameOf(own) })),
  );
  const own = { width, places, projections, copied, dots };
  return { layout, hasDense, features, dim, ...own, bottom, top };
}

/** Where the vectors of all lookups go, from column `first` of `x` on: features, then groups. */
function placesIn(spec: ModelSpec, first: number) {
  const { tables, groups = [], interaction } = spec;
  const dim = spec.dim ?? spec.bottom.at(-1) ?? tables[0]?.dim ?? 0;
  const groupOf = new Map(groups.flatMap((group) => group.features.map((name) => [name, group])));
  const projections: ProjectionShape[] = [];
  const places: LookupPlace[] = [];
  const waiting = new Map(groups.map((group) => [group, { inputs: 0, at: [] as number[] }]));
  let width = first;
  for (const { name, table, positions, vectors } of featuresOf(spec)) {
    const inputs = tables[table]?.dim ?? 0;
    const group = groupOf.get(name);
    const members = group && waiting.get(group);
    if (members !== undefined) {
      members.at.push(places.length);
      places.push({ projection: undefined, column: members.inputs });
      members.inputs += inputs;
      continue;
    }
    const outputs = (vectors ?? 1) * dim;
    const isDirect = inputs === outputs || (interaction === "cat" && vectors === undefined);
    const projection = isDirect ? undefined : projections.length;
    for (let position = 0; position < positions; position++) {
      places.push({ projection, column: (isDirect ? width : 0) + position * inputs });
    }
    if (!isDirect) projections.push({ name, positions, inputs, outputs, column: width });
    width += positions * (isDirect ? inputs : outputs);
  }
  for (const [{ name, vectors }, { inputs, at }] of waiting) {
    for (const place of at) {
      places[place] = { projection: projections.length, column: places[place]?.column ?? 0 };
    }
    const outputs = vectors * dim;
    projections.push({ name, positions: 1, inputs, outputs, column: width });
    width += outputs;
  }
  return { width, places, projections };
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
    projections: shape.projections.map((own) => createProjection(own, common)),
    x: kernels.tensor([samplesMax, shape.width]),
    dX: kernels.tensor([samplesMax, shape.width]),
    interaction: kernels.tensor([samplesMax, shape.top[0] ?? 0]),
    dBottom: kernels.tensor([samplesMax, shape.bottom.at(-1) ?? 0]),
  };
}

/** The layers' parts of flat gradients, one flat tensor for each finished subtree. */
export function gradientsOf(model: Dlrm, flats: readonly Tensor[]): DlrmGradients {
  const { kernels, shape } = model;
  const of = (name: string, mlp: Mlp) =>
    mlpGradients(kernels, name, mlp.layers.length, shape.layout, flats);
  return {
    bottom: of("bottom", model.bottom),
    top: of("top", model.top),
    projections: model.projections.map((own) => projectionGradient(own, shape.layout, flats)),
  };
}

/** Writes the bottom MLP's output (B,D) into the first columns of `x`. */
export function forwardBottom(model: Dlrm, dense: Tensor): void {
  if (!model.shape.hasDense) return;
  const { kernels } = model;
  const samples = dense.shape[0] ?? 0;
  const out = forwardMlp(model.bottom, dense);
  kernels.copyColumns(kernels.part(model.x, 0, samples), 0, out, 0, out.shape[1] ?? 0);
}

/** Backpropagates the first columns of `dX` to the bottom's parameters. */
export function backwardBottom(
  model: Dlrm,
  dense: Tensor,
  slices: Slices,
  gradients: DlrmGradients,
): void {
  if (!model.shape.hasDense) return;
  const { kernels } = model;
  const samples = dense.shape[0] ?? 0;
  const d = kernels.part(model.dBottom, 0, samples);
  kernels.copyColumns(d, 0, kernels.part(model.dX, 0, samples), 0, d.shape[1] ?? 0);
  backwardMlp(model.bottom, d, dense, slices, gradients.bottom, { needsInput: false });
}

/** Logits (B,1) from the vectors in `x`, and from rows that are projected into it. */
export function forwardTop(model: Dlrm, samples: number, dropout?: Dropout): Tensor {
  const { kernels, shape } = model;
  const x = kernels.part(model.x, 0, samples);
  for (const projection of model.projections) forwardProjection(projection, x);
  const interaction = kernels.part(model.interaction, 0, samples);
  const { vectors, copied } = interactingIn(shape, samples);
  kernels.interact(interaction, kernels.reshape(x, vectors), copied, shape.dots);
  return forwardMlp(model.top, interaction, dropout);
}

/** The vectors that interact: (B,F,D); without dot products one of all W columns, copied. */
function interactingIn({ features, dim, width, copied, dots }: ModelShape, samples: number) {
  return dots
    ? { vectors: [samples, features, dim], copied }
    : { vectors: [samples, 1, width], copied: 1 };
}

/** (Bmax,1): the logits of the last forward. */
export function logitsOf(model: Dlrm): Tensor {
  const last = model.top.layers.at(-1);
  if (last === undefined) throw new RangeError("The top MLP has no layer");
  return last.out;
}

/**
 * Fills `dX` (B,W), the gradients of projected rows, and the gradients of the top and of the
 * projections, from dLogits (B,1), which it overwrites.
 */
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
  const { vectors, copied } = interactingIn(shape, samples);
  const [dX, x] = [kernels.reshape(model.dX, vectors), kernels.reshape(model.x, vectors)];
  kernels.dInteract(dX, d, x, copied, shape.dots);
  const dVectors = kernels.part(model.dX, 0, samples);
  for (const [i, projection] of model.projections.entries()) {
    const own = gradients.projections[i] ?? { dWeight: [], dBias: [] };
    backwardProjection(projection, dVectors, slices, own);
  }
}

/** Where the vectors (B,·) of a lookup go, and from which column on. */
export function vectorsOf(model: Dlrm, lookup: number, samples: number): VectorsAt {
  return placeIn(model, lookup, samples, model.x, "rows");
}

/** Where `backwardTop` leaves their gradients. */
export function gradientsAt(model: Dlrm, lookup: number, samples: number): VectorsAt {
  return placeIn(model, lookup, samples, model.dX, "dRows");
}

/** Columns of a tensor (B,·). */
export interface VectorsAt {
  readonly of: Tensor;
  readonly column: number;
}

function placeIn(
  { kernels, projections, shape }: Dlrm,
  lookup: number,
  samples: number,
  direct: Tensor,
  projected: "rows" | "dRows",
): VectorsAt {
  const place = shape.places[lookup];
  if (place === undefined) throw new RangeError(`The model has no lookup ${lookup}`);
  const { projection, column } = place;
  const of = projection === undefined ? direct : projections[projection]?.[projected];
  if (of === undefined) throw new RangeError(`The model has no projection ${projection}`);
  return { of: kernels.part(of, 0, samples), column };
}
