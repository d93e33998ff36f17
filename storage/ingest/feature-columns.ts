// The columns of an ingested table. Types that are not given follow from the first rows, and never
// change afterwards: a later value that does not fit is a fault of its message, and a member that
// no column has is left out, and told.

import type { Fault } from "../../src/data/text/faults.ts";
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

/** Rows that the types follow from, or those of the first file, if it has fewer. */
export const inferredRows = 1000;

type Features = readonly (readonly [name: string, value: Loose])[];
export type Types = Readonly<Record<string, ColumnType>>;

/** The columns of features: of the given types, and of those of a table that is gone on with. */
export class FeatureColumns {
  readonly #spec: IngestSpec;
  readonly #inferred = new Map<string, InferredType>();
  #fixed: Types | undefined;
  /** Values without a column, and some of their names. */
  readonly #unknown: { count: number; names: string[] };

  constructor(spec: IngestSpec, fixed?: Types, unknown?: { count: number; names: string[] }) {
    this.#spec = spec;
    this.#fixed = fixed;
    this.#unknown = unknown === undefined ? { count: 0, names: [] } : structuredClone(unknown);
  }

  /** The types, once they are fixed. */
  get fixed(): Types | undefined {
    return this.#fixed;
  }

  get unknown(): { readonly count: number; readonly names: readonly string[] } {
    return this.#unknown;
  }

  /** What is wrong with the values of a message. */
  faultOf(features: Features): Fault | undefined {
    for (const [name, value] of features) {
      const type = this.#fixed === undefined ? this.#given(name) : this.#own(name);
      if (type !== undefined && !fits(type, value)) {
        return { kind: `expected \`${name}\` to be of the type ${type}` };
      }
      const form = this.#inferred.get(name)?.type;
      if (form !== undefined && columnTypes[form].form !== value.form) {
        return { kind: `expected \`${name}\` to be one value, a list or weights, as before` };
      }
    }
    return undefined;
  }

  /** Takes the values of a row, whose types the columns follow from until they are fixed. */
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

  /** Fixes the types: those that are given come first. Returns all. */
  fix(): Types {
    const inferred = [...this.#inferred].map(([name, type]) => [name, type.type] as const);
    this.#fixed ??= { ...this.#spec.columns, ...Object.fromEntries(inferred) };
    this.#inferred.clear();
    return this.#fixed;
  }

  /** The columns of the files, once the types are fixed. */
  columns(): TableColumn[] {
    const { id, time, label, values } = this.#spec;
    const own: [string, ColumnType][] = [
      [id, "STRING"],
      [time, "INT64"],
      [sequenceColumn, "INT64"],
      [label, "DOUBLE"],
      ...values.map((name): [string, ColumnType] => [name, "DOUBLE"]),
    ];
    const all = [...own, ...Object.entries(this.#fixed ?? {})];
    return all.map(([name, type]) => ({ name, elements: elementsOf(name, type) }));
  }

  /** A row, as the columns store it. */
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

/** Names of members without a column that are told. */
const namesMax = 20;
