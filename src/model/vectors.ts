// Concatenates the vectors of a model's lookups as the blocks read them: (W) columns, first an
// optional value (a bottom MLP's output), then the features, then the groups of features.
//
// A feature with rows of another width than the model's vectors is projected, by one linear layer
// without a bias over its row, or over the concatenated rows of a group's features (Wukong's
// embedding layer, arXiv 2403.02545, section 3.2: an important feature has several vectors,
// unimportant features share some). A sequence with an encoder becomes one vector first
// (sequence-encoder.ts), computed once for all samples that share the sequence.

import { sideBySide, type ValueAt } from "./blocks/concat.ts";
import { linear } from "./blocks/linear.ts";
import { encodeSequence } from "./blocks/sequences/sequence-encoder.ts";
import type { Sequence } from "./blocks/sequences/sequence-mask.ts";
import { type Feature, featuresOf } from "./features.ts";
import { type GraphBuilder, reshape, sizeOf, type Value } from "./graph/graph.ts";
import type { CheckedModel } from "./kinds/common-options.ts";

/** A projection: its lookups, with their columns in the input row. */
interface Projected {
  readonly name: string;
  /** 1, or the positions of an unpooled feature, which share the weights. */
  readonly positions: number;
  /** Columns of one position, before and after the projection. */
  readonly inputs: number;
  readonly outputs: number;
  /** First column of the projected vectors in the output. */
  readonly column: number;
  readonly lookups: readonly LookupAt[];
  /** Encodes the positions as one vector before the projection. */
  readonly encoder?: Feature["encoder"];
}

interface LookupAt {
  readonly lookup: number;
  readonly column: number;
  readonly columns: number;
  /** 0: a vector for each sample; 1 + g: for each distinct list of group g. */
  readonly axis: number;
  /** The lookup of the first position, of an unpooled feature. */
  readonly sequence: number | undefined;
}

/** The part of a model that determines where vectors go. */
export type VectorSpec = Pick<CheckedModel, "tables" | "features" | "groups">;

/**
 * Concatenates `first`, if given, and the vectors of all lookups. `dim`: the width of a vector; a
 * feature of another width is projected, unless `keepsWidths` exempts pooled features. `has`:
 * whether a feature is included; left out: all are. Returns (W).
 */
export function vectors(
  graph: GraphBuilder,
  spec: VectorSpec,
  options: {
    readonly first?: Value;
    readonly dim: number;
    readonly keepsWidths?: boolean;
    readonly has?: (feature: string) => boolean;
  },
): Value {
  const { first, dim, keepsWidths = false, has = () => true } = options;
  const firstColumns = first?.shape[0] ?? 0;
  const places = placesIn(graph, spec, { firstColumns, dim, keepsWidths, has });
  const { width, direct, projected } = places;
  const values: ValueAt[] = first === undefined ? [] : [{ value: first, column: 0 }];
  for (const own of projected) {
    const value = project(graph, own);
    values.push({ value, column: own.column, sequence: sequenceIn(own) });
  }
  return rowsOf(graph, direct, width, values);
}

/**
 * Concatenates rows of lookups and values. The step writes the rows of lookups that have one per
 * sample straight into the result; rows of deduplicated features are values of their own, which are
 * expanded. Returns (width).
 */
function rowsOf(
  graph: GraphBuilder,
  lookups: readonly LookupAt[],
  width: number,
  values: readonly ValueAt[],
): Value {
  const own = lookups.filter(({ axis }) => axis === 0);
  const lists = runsOf(lookups.filter(({ axis }) => axis !== 0)).map((run): ValueAt => {
    const [{ axis, column, sequence } = { axis: 0, column: 0, sequence: undefined }] = run;
    const columns = run.reduce((sum, one) => sum + one.columns, 0);
    const value = rowsOnAxis(graph, run, [columns], axis);
    if (sequence === undefined) return { value, column };
    return { value, column, sequence: { lookup: sequence, positions: run.length } };
  });
  const hasLookups = own.length > 0;
  const all = sideBySide(graph, [...values, ...lists], { columns: width, hasLookups });
  for (const { lookup, column } of own) graph.place(lookup, all, column);
  return all;
}

/** Concatenates rows of lookups that share one axis. */
function rowsOnAxis(
  graph: GraphBuilder,
  lookups: readonly LookupAt[],
  shape: readonly number[],
  axis: number,
): Value {
  const rows = graph.add({ inputs: [], shape, axis, hasLookups: true });
  const first = lookups[0]?.column ?? 0;
  for (const { lookup, column } of lookups) graph.place(lookup, rows, column - first);
  return rows;
}

/** Groups lookups in consecutive columns of one axis into runs; a sequence is a run of its own. */
function runsOf(lookups: readonly LookupAt[]): LookupAt[][] {
  const runs: LookupAt[][] = [];
  for (const one of lookups) {
    const last = runs.at(-1);
    const before = last?.at(-1);
    const isNext = before?.axis === one.axis && before.column + before.columns === one.column;
    if (last !== undefined && isNext && before.sequence === one.sequence) last.push(one);
    else runs.push([one]);
  }
  return runs;
}

/** The vectors of an unpooled feature, (positions, dim), as wide as `vectors` makes them. */
export function sequenceOf(
  graph: GraphBuilder,
  spec: VectorSpec,
  options: { readonly name: string; readonly dim: number; readonly keepsWidths?: boolean },
): Sequence {
  const { name, ...widths } = options;
  let lookup = 0;
  for (const { name: other, positions, encoder } of featuresOf(spec)) {
    if (other === name && encoder !== undefined) {
      throw new RangeError(`the feature \`${name}\` is one vector, which its \`encoder\` makes`);
    }
    if (other !== name) {
      lookup += positions;
      continue;
    }
    const all = vectors(graph, spec, { ...widths, has: (feature) => feature === name });
    return { vectors: reshape(all, [positions, sizeOf(all) / positions]), lookup };
  }
  throw new RangeError(`The model has no feature ${name}`);
}

/**
 * Projects rows of lookups to vectors (positions, outputs), or encodes them as one vector first.
 */
function project(graph: GraphBuilder, own: Projected): Value {
  const { name, positions, inputs, outputs, lookups } = own;
  const shape = [positions, inputs];
  const axis = lookups[0]?.axis ?? 0;
  const rows = lookups.every((one) => one.axis === axis)
    ? rowsOnAxis(graph, lookups, shape, axis)
    : reshape(rowsOf(graph, lookups, positions * inputs, []), shape);
  if (own.encoder !== undefined) {
    const sequence = { vectors: rows, lookup: lookups[0]?.lookup ?? 0 };
    const encoded = encodeSequence(graph, sequence, `encoders.${name}`, own.encoder);
    if (inputs === outputs) return encoded;
    return linear(graph, encoded, { name: `projections.${name}`, outputs, bias: false });
  }
  return linear(graph, rows, { name: `projections.${name}`, outputs, bias: false, isInput: true });
}

/** The positions of the result of `project`, if it has a vector for each. */
function sequenceIn({ positions, encoder, lookups: [first] }: Projected): ValueAt["sequence"] {
  if (encoder !== undefined || first?.sequence === undefined) return undefined;
  return { lookup: first.sequence, positions };
}

/** Assigns columns to the vectors of all lookups: features first, then groups. */
function placesIn(
  graph: GraphBuilder,
  { tables, groups = [], ...spec }: VectorSpec,
  options: {
    firstColumns: number;
    dim: number;
    keepsWidths: boolean;
    has: (feature: string) => boolean;
  },
) {
  const { dim, keepsWidths, has } = options;
  const groupOf = new Map(groups.flatMap((group) => group.features.map((name) => [name, group])));
  const direct: LookupAt[] = [];
  const projected: Projected[] = [];
  const waiting = new Map(groups.map((group) => [group, { inputs: 0, lookups: [] as LookupAt[] }]));
  let width = options.firstColumns;
  let lookup = 0;
  const features = featuresOf({ tables, ...spec });
  for (const [feature, one] of features.entries()) {
    const { name, table, positions, vectors: own, encoder } = one;
    const axis = graph.axisOf(feature);
    if (!has(name)) {
      lookup += positions;
      continue;
    }
    const inputs = tables[table]?.dim ?? 0;
    const group = groupOf.get(name);
    const members = group && waiting.get(group);
    if (members !== undefined) {
      const at = { column: members.inputs, columns: inputs, axis, sequence: undefined };
      members.lookups.push({ lookup: lookup++, ...at });
      members.inputs += inputs;
      continue;
    }
    const outputs = (own ?? 1) * dim;
    const isDirect =
      encoder === undefined && (inputs === outputs || (keepsWidths && own === undefined));
    const sequence = positions > 1 ? lookup : undefined;
    const lookups = Array.from({ length: positions }, (_, position) => {
      const column = (isDirect ? width : 0) + position * inputs;
      return { lookup: lookup++, column, columns: inputs, axis, sequence };
    });
    if (encoder !== undefined) {
      const made = { inputs, outputs: keepsWidths ? inputs : dim, column: width };
      projected.push({ name, positions, ...made, lookups, encoder });
      width += made.outputs;
      continue;
    }
    if (isDirect) direct.push(...lookups);
    else projected.push({ name, positions, inputs, outputs, column: width, lookups });
    width += positions * (isDirect ? inputs : outputs);
  }
  for (const [{ name, vectors: own }, { inputs, lookups }] of waiting) {
    if (lookups.length === 0) continue;
    const outputs = own * dim;
    projected.push({ name, positions: 1, inputs, outputs, column: width, lookups });
    width += outputs;
  }
  return { width, direct, projected };
}
