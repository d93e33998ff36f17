// The columns of an ingested table. Types that are not given are inferred from the first rows and
// never change afterwards: a message with a value of another type is rejected, and a member without
// a column is dropped and reported.

import type { LineFault } from "../../../internal.ts";
import {
  type ColumnType,
  columnTypes,
  elementsOf,
  fits,
  InferredType,
  type Loose,
  storedOf,
} from "../warehouse/inferred-type.ts";
import type { TableColumn } from "../warehouse/table-columns.ts";
import type { IngestSpec } from "./ingest-options.ts";
import type { JoinedRow } from "./join.ts";
import { sequenceColumn } from "./messages.ts";

/** Rows from which types are inferred; fewer if the first file is shorter. */
export const inferredRows = 1000;

type Features = readonly (readonly [name: string, value: Loose])[];
export type Types = Readonly<Record<string, ColumnType>>;

/** The feature columns, whose types are given, inferred, or recorded by an earlier ingestion. */
export class FeatureColumns {
  readonly #spec: IngestSpec;
  readonly #inferred = new Map<string, InferredType>();
  #fixed: Types | undefined;
  /** Number of values without a column, and some of their names. */
  readonly #unknown: { count: number; names: string[] };

  constructor(spec: IngestSpec, fixed?: Types, unknown?: { count: number; names: string[] }) {
    this.#spec = spec;
    this.#fixed = fixed;
    this.#unknown = unknown === undefined ? { count: 0, names: [] } : structuredClone(unknown);
  }

  /** The types; undefined until they are fixed. */
  get fixed(): Types | undefined {
    return this.#fixed;
  }

  get unknown(): { readonly count: number; readonly names: readonly string[] } {
    return this.#unknown;
  }

  /** The first value of a message that does not fit its column; undefined: all fit. */
  faultOf(features: Features): LineFault | undefined {
    for (const [name, value] of features) {
      const type = this.#fixed === undefined ? this.#given(name) : this.#own(name);
      if (type !== undefined && !fits(type, value)) {
        return { kind: `expected \`${name}\` to be of the type ${type}` };
      }
      const form = this.#inferred.get(name)?.type;
      if (form !== undefined && columnTypes[form].form !== value.form) {
        const as = "one value, a list or weights as in earlier messages";
        return { kind: `expected \`${name}\` to have ${as}` };
      }
    }
    return undefined;
  }

  /** Infers types from a row's values; once types are fixed, counts values without a column. */
  learn(features: Features): void {
    for (const [name, value] of features) {
      if (this.#fixed !== undefined) {
        if (this.#own(name) === undefined) this.#leaveOut(name);
        continue;
      }
      if (this.#given(name) !== undefined) continue;
      const type = this.#inferred.get(name) ?? new InferredType();
      this.#inferred.set(name, type);
      type.add(value);
    }
  }

  /** Fixes the types, given ones first, and returns them. */
  fix(): Types {
    const inferred = [...this.#inferred].map(([name, type]) => [name, type.type] as const);
    this.#fixed ??= { ...this.#spec.columns, ...Object.fromEntries(inferred) };
    this.#inferred.clear();
    return this.#fixed;
  }

  /** The columns of the files. Call it after `fix`. */
  columns(): TableColumn[] {
    const { id, time, label, values } = this.#spec;
    const fixed: [string, ColumnType][] = [
      [id, "STRING"],
      [time, "INT64"],
      [sequenceColumn, "INT64"],
      [label, "DOUBLE"],
      ...values.map((name): [string, ColumnType] => [name, "DOUBLE"]),
    ];
    const all = [...fixed, ...Object.entries(this.#fixed ?? {})];
    return all.map(([name, type]) => ({ name, elements: elementsOf(name, type) }));
  }

  /** A row's stored values by column. */
  stored({ id, timeMs, sequence, numbers, features }: JoinedRow): Map<string, unknown> {
    const { label, values } = this.#spec;
    const row = new Map<string, unknown>([
      [this.#spec.id, Buffer.from(id, "utf8")],
      [this.#spec.time, BigInt(timeMs)],
      [sequenceColumn, BigInt(sequence)],
      ...[label, ...values].map((name, i): [string, unknown] => [name, numbers[i]]),
    ]);
    for (const [name, value] of features) {
      const type = this.#own(name);
      if (type !== undefined) row.set(name, storedOf(type, value));
    }
    return row;
  }

  #given(name: string): ColumnType | undefined {
    return Object.hasOwn(this.#spec.columns, name) ? this.#spec.columns[name] : undefined;
  }

  #own(name: string): ColumnType | undefined {
    const types = this.#fixed ?? {};
    return Object.hasOwn(types, name) ? types[name] : undefined;
  }

  #leaveOut(name: string): void {
    const { names } = this.#unknown;
    this.#unknown.count++;
    if (names.length < namesMax && !names.includes(name)) names.push(name);
  }
}

/** Most names of members without a column that are reported. */
const namesMax = 20;
