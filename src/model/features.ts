// The categorical features of a model, as distinct from its tables: a table stores rows, a feature
// looks rows up. A model that lists no features has one feature for each table.
//
// A feature makes one lookup per sample or, if it is not pooled, one for each position of its
// sequence. A lookup maps a bag of ids in one table to one vector of the table's dim (Neo's map
// from features to tables: Mudigere et al., arXiv 2104.05158).

import type { TableShape } from "../data/options.ts";
import type { TableSpec } from "../embedding/tables/options.ts";
import type { Pooling } from "../kernels/contract/kernels.ts";
import type { SequenceEncoder } from "./blocks/sequences/sequence-encoder.ts";
import type { CheckedModel } from "./kinds/common-options.ts";

/** A categorical feature, validated and with defaults filled in. */
export interface Feature {
  readonly name: string;
  /** The data column that the feature reads; undefined: the column with the table's name. */
  readonly column: string | undefined;
  /** Index of its table in the job. */
  readonly table: number;
  /**
   * How a bag becomes a vector; `none`: every id of the bag keeps its own vector, in the bag's
   * order.
   */
  readonly pooling: Pooling | "none";
  /** Lookups per sample: 1, or the positions of an unpooled sequence. */
  readonly positions: number;
  /** Which ids of a sequence are kept if it has more ids than positions. */
  readonly kept: "first" | "last";
  /**
   * Vectors that each lookup contributes to the interaction; undefined: as many as its dim holds.
   */
  readonly vectors: number | undefined;
  /** Encodes the sequence as one vector; undefined: each id keeps its own vector. */
  readonly encoder: SequenceEncoder | undefined;
}

/** The bags of one feature, or of one position of an unpooled feature. */
export interface Lookup {
  /** Index of the feature in the job, and so in the data. */
  readonly feature: number;
  /** Index of the table in the job. */
  readonly table: number;
  /** How a bag becomes a vector. The bag of a position has at most one id. */
  readonly pooling: Pooling;
  /** The position in its sequence; undefined where the feature is pooled. */
  readonly position: number | undefined;
}

/** The parts of a model from which its features follow. */
export type FeaturedModel = Pick<CheckedModel, "tables" | "features">;

/** The features of a model, in the order of the job and of the data. */
export function featuresOf({ tables, features }: FeaturedModel): Feature[] {
  if (features === undefined) {
    return tables.map(({ name, pooling }, table) => {
      const own = { column: undefined, positions: 1, kept: "first" } as const;
      return { name, table, pooling, ...own, vectors: undefined, encoder: undefined };
    });
  }
  const indices = new Map(tables.map(({ name }, index) => [name, index]));
  return features.map(({ column, name = column, table: of = column, ...feature }): Feature => {
    const table = indices.get(of) ?? 0;
    const pooling = feature.pooling ?? tables[table]?.pooling ?? "sum";
    const positions = pooling === "none" ? (feature.maxLength ?? 1) : 1;
    const { kept = "first", vectors } = feature;
    const encoder = feature.encoder && encoderOf(feature.encoder, tables[table]?.dim ?? 0);
    return { name, column, table, pooling, positions, kept, vectors, encoder };
  });
}

type EncoderOptions = NonNullable<NonNullable<CheckedModel["features"]>[number]["encoder"]>;

function encoderOf(options: EncoderOptions, dim: number): SequenceEncoder {
  return options.kind === "attention" ? options : { ...options, hidden: options.hidden ?? dim };
}

/** The lookups of a sample: feature by feature, position by position. */
export function lookupsOf(features: readonly Feature[]): Lookup[] {
  return features.flatMap(({ table, pooling, positions }, feature): Lookup[] => {
    if (pooling !== "none") return [{ feature, table, pooling, position: undefined }];
    return Array.from({ length: positions }, (_, position) => {
      return { feature, table, pooling: "sum", position };
    });
  });
}

/** The shape of each feature, as needed to read and check the data. */
export function shapesOf(model: FeaturedModel): TableShape[] {
  return featuresOf(model).map(({ name, column, table }): TableShape => {
    const { rows, idBits, ids } = tableAt(model.tables, table);
    return { name, rows, idBits, ids, ...(column === undefined ? {} : { column, table }) };
  });
}

function tableAt(tables: readonly TableSpec[], table: number): TableSpec {
  const spec = tables[table];
  if (spec === undefined) throw new RangeError(`The model has no table ${table}`);
  return spec;
}
