// The categorical features of a model, apart from its tables: a table stores rows, a feature looks
// them up. A model that names no features has one for each table.
//
// A feature makes one lookup a sample, or, unpooled, one for each position of its sequence. A
// lookup is a bag of ids in one table that becomes one vector of the table's dim (Neo's map from
// features to tables: Mudigere et al., arXiv 2104.05158).

import type { TableShape } from "../data/options.ts";
import type { TableSpec } from "../embedding/tables/options.ts";
import type { Pooling } from "../kernels/contract/kernels.ts";
import type { SequenceEncoder } from "./blocks/sequences/sequence-encoder.ts";
import type { CheckedModel } from "./options/common-options.ts";

/** A categorical feature after its checks. */
export interface Feature {
  readonly name: string;
  /** The column of the data that feeds it; undefined: the one that names the table. */
  readonly column: string | undefined;
  /** Index of its table in the job. */
  readonly table: number;
  /** `none`: every id of the bag has a vector of its own, in the order of the bag. */
  readonly pooling: Pooling | "none";
  /** Lookups a sample: 1, or the positions of an unpooled sequence. */
  readonly positions: number;
  /** Of a sequence with more ids than positions: which of them have one. */
  readonly kept: "first" | "last";
  /** Vectors of each lookup in the interaction; undefined: as many as the dim makes. */
  readonly vectors: number | undefined;
  /** What makes one vector of the sequence; undefined: nothing, each id has one. */
  readonly encoder: SequenceEncoder | undefined;
}

/** The bags of one feature, or of one position of an unpooled feature. */
export interface Lookup {
  /** Index of the feature in the job, and so in the data. */
  readonly feature: number;
  /** Index of the table in the job. */
  readonly table: number;
  /** How a bag becomes a vector. A bag of a position has one id at most. */
  readonly pooling: Pooling;
  /** The position in its sequence; undefined where the feature is pooled. */
  readonly position: number | undefined;
}

/** The parts of a model that its features follow from. */
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

/** What reading and checking the data needs of each feature. */
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
