// Features of rows from the outputs of transforms, by the rules for a text field with the same
// value (columnar/row-encoder.ts).

import { type BagReader, bagReader } from "../columnar/bag-reader.ts";
import type { CategoricalField, DenseField } from "../columnar/named-columns.ts";
import type { Fill } from "../columnar/plain-records.ts";
import { bagFill, denseFill } from "../columnar/row-encoder.ts";
import type { Sample } from "../sample.ts";
import type { MadeColumns } from "../transforms/compile.ts";
import type { LineFault } from "./faults.ts";
import type { MadeRow } from "./line-decoder.ts";

/** Readers of bags, by feature. They cache hashes across batches. */
export type BagReaders = Map<number, BagReader>;

/** The features of the rows of one transform run. Set `row` before reading. */
export class MadeFeatures implements MadeRow {
  /** Index of the current row. */
  row = 0;
  readonly #made: MadeColumns;
  /** Faults of rows whose input values could not be read, by row. */
  readonly #faults: ReadonlyMap<number, LineFault>;
  readonly #readers: BagReaders;
  readonly #dense = new Map<number, Fill>();
  readonly #bags = new Map<number, Fill>();

  constructor(made: MadeColumns, faults: ReadonlyMap<number, LineFault>, readers: BagReaders) {
    this.#made = made;
    this.#faults = faults;
    this.#readers = readers;
  }

  fault(): LineFault | undefined {
    const kind = this.#made.faults.get(this.row);
    return this.#faults.get(this.row) ?? (kind === undefined ? undefined : { kind });
  }

  dense(sample: Sample, field: DenseField): LineFault | undefined {
    const fill = this.#dense.get(field.at) ?? denseFill(this.#columnOf(field), field);
    this.#dense.set(field.at, fill);
    return fill(sample, this.row);
  }

  bag(sample: Sample, feature: number, field: CategoricalField): LineFault | undefined {
    const fill = this.#bags.get(feature) ?? this.#bagFill(feature, field);
    return fill(sample, this.row);
  }

  #bagFill(feature: number, field: CategoricalField): Fill {
    const reader = this.#readers.get(feature) ?? bagReader(field, feature);
    this.#readers.set(feature, reader);
    const fill = bagFill(this.#columnOf(field), field, feature, reader);
    this.#bags.set(feature, fill);
    return fill;
  }

  #columnOf({ name }: { readonly name: string }) {
    const column = this.#made.columns.get(name);
    if (column === undefined || column.form === "lists") throw new TypeError(`a column ${name}`);
    return column;
  }
}
