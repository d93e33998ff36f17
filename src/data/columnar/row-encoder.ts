// Makes samples of rows that are columns, by the rules by which text becomes samples: a number
// means what its text would, so that one data set as text and as columns gives the same samples,
// byte for byte. docs/data.md has the rules.
//
// What is frequent takes a short way: numbers as they are, and rows of hashed ids and texts that
// were hashed before. Everything else, faults too, goes the way of text.

import type { Sample } from "../sample.ts";
import { groupOf } from "../targets.ts";
import { type Fault, show } from "../text/faults.ts";
import type { LabelReader } from "../text/labels.ts";
import { decimal, decodeBag, decodeDense, decodeMissing } from "../text/line-decoder.ts";
import type { KeyCollector } from "../text/split-keys.ts";
import type { CompiledTransforms } from "../transforms/compile.ts";
import { type BagReader, bagReader } from "./bag-reader.ts";
import type { Column, RowBatch } from "./column.ts";
import { type MadeBatch, madeBatch } from "./made-batch.ts";
import type { CategoricalField, DenseField, FieldColumns, TargetField } from "./named-columns.ts";
import { type BatchColumns, type Fill, type PlainRecords, recordMaker } from "./plain-records.ts";
import { millisecondsOf, textAt, textsAt, timeText } from "./row-text.ts";

/** Fills samples from the rows of batches. */
export interface RowEncoder {
  /**
   * Takes a batch; its rows can be encoded until the next. `place`: that of its file among the
   * files, which sampling asks for. @default 0
   */
  begin(batch: RowBatch, place?: number): void;
  /** Whether sampling keeps a row. */
  isKept(row: number): boolean;
  /** Fills a sample from a row of the batch. Returns the row's fault, if it has one. */
  encode(sample: Sample, row: number): Fault | undefined;
  /**
   * The records of the batch's rows that need nothing but to be copied; undefined: it has none. A
   * row without one is to be encoded.
   */
  records(): PlainRecords | undefined;
  /** The features alone, for a prediction. */
  encodeFeatures(sample: Sample, row: number): Fault | undefined;
}

/** Labels whose reading is remembered, of one column. */
const labelsMax = 4096;

/**
 * The encoder of rows. `header`: the names of the columns, which `columns` names by their places.
 * `keys` takes the keys of the rows where a column splits the data. `transforms`: what makes the
 * columns that no batch has; `header` names them, too, at its end.
 */
export function createRowEncoder(
  columns: FieldColumns,
  header: readonly string[],
  keys?: Pick<KeyCollector, "read" | "take">,
  transforms?: CompiledTransforms,
): RowEncoder {
  const bags = columns.categorical.map((column, feature) => bagReader(column, feature));
  /** What fills samples of the batch; made when a row is encoded. */
  let fills: { readonly targets: Fill[]; readonly features: Fill[] } | undefined;
  const labels = columns.labels.map(() => new Map<string | number, number | Fault>());
  const labelOf = (place: number, column: Column) => {
    const readLabel = columns.readLabels[place];
    if (readLabel === undefined) throw new TypeError("a label has a reader");
    return labelReaderOf(column, readLabel, labels[place] ?? new Map());
  };
  const targetFills = (columnOf: (field: number) => Column) => ({
    ...(columns.weight && { weight: weightFill(columnOf(columns.weight.field), columns.weight) }),
    ...(columns.group && { group: groupFill(columnOf(columns.group.field), columns.group) }),
  });
  const fillsOf = ({ columnOf }: BatchColumns) => targetFills(columnOf);
  const makeRecords = recordMaker(columns, { bags, labelOf, fillsOf });

  let now: RowBatch | undefined;
  let made: MadeBatch | undefined;
  let readKey: ((row: number) => Fault | undefined) | undefined;

  const columnOf = (field: number): Column => {
    const column = (made ?? now)?.columns.get(header[field] ?? "");
    if (column === undefined) throw new TypeError(`a batch lacks the column ${header[field]}`);
    return column;
  };
  const bagsOf = (field: number) =>
    made?.runsOf(header[field] ?? "") ?? { column: columnOf(field) };
  const begin = (batch: RowBatch, place = 0) => {
    now = batch;
    made = transforms && madeBatch(transforms, columns, header, batch, place);
    const { key } = columns;
    readKey = key === undefined || keys === undefined ? undefined : keyReader(columnOf(key), keys);
    fills = undefined;
  };
  const makeFills = () => {
    const { weight, group } = targetFills(columnOf);
    const targets = [
      ...(readKey === undefined ? [] : [keyFill(readKey)]),
      ...columns.labels.map((field, i) => labelFill(i, labelOf(i, columnOf(field)))),
      ...(weight === undefined ? [] : [weight]),
      ...(group === undefined ? [] : [group]),
    ];
    const features = [
      ...columns.dense.map((field) => denseFill(columnOf(field.field), field)),
      ...columns.categorical.map((field, i) => {
        return bagFill(columnOf(field.field), field, i, bags[i]);
      }),
    ];
    return { targets, features };
  };

  const run = (all: readonly Fill[], sample: Sample, row: number): Fault | undefined => {
    for (const fill of all) {
      const fault = fill(sample, row);
      if (fault !== undefined) return fault;
    }
    return undefined;
  };
  const encodeFeatures = (sample: Sample, row: number) => {
    const unmade = made?.faults.get(row);
    if (unmade !== undefined) return unmade;
    sample.clear();
    fills ??= makeFills();
    return run(fills.features, sample, row);
  };
  const encode = (sample: Sample, row: number) => {
    fills ??= makeFills();
    return run(fills.targets, sample, row) ?? encodeFeatures(sample, row);
  };
  const records = () => {
    const found = now && makeRecords?.({ columnOf, bagsOf }, now.rows);
    if (found === undefined || now === undefined) return undefined;
    const { isPlain } = found;
    for (const row of made?.faults.keys() ?? []) isPlain[row] = 0;
    if (readKey !== undefined) {
      for (let row = 0; row < now.rows; row++) {
        if (readKey(row) !== undefined) isPlain[row] = 0;
      }
    }
    return found;
  };
  return {
    begin,
    records,
    isKept: (row) => made?.kept === undefined || made.kept[row] === 1,
    encodeFeatures,
    encode,
  };
}

/** Reads the key of a row: its fault, if it has one. */
function keyReader(
  column: Column,
  keys: Pick<KeyCollector, "read" | "take">,
): (row: number) => Fault | undefined {
  if (column.form !== "numbers" || column.isTime !== true) {
    return (row) => keys.read(textsAt(column, row).join("|")); // A column of slices may have lists.
  }
  return (row) => {
    const seconds = column.values[row] ?? Number.NaN;
    if (Number.isNaN(seconds)) return keys.read("");
    return keys.take({ form: "date", value: millisecondsOf(seconds) }, timeText(seconds));
  };
}

function keyFill(readKey: (row: number) => Fault | undefined): Fill {
  return (_, row) => readKey(row);
}

/** Reads the labels of a column, those alike once. */
function labelReaderOf(
  column: Column,
  readLabel: LabelReader,
  known: Map<string | number, number | Fault>,
): (row: number) => number | Fault {
  const labelOf = (row: number) => {
    const key = column.form === "numbers" ? (column.values[row] ?? 0) : textAt(column, row);
    const before = known.get(key);
    if (before !== undefined) return before;
    if (known.size >= labelsMax) known.clear();
    const label = readLabel(textAt(column, row));
    known.set(key, label);
    return label;
  };
  if (column.form !== "numbers") return labelOf;
  // Most labels are 0 and 1: no search for them.
  const classes: (number | Fault | undefined)[] = [undefined, undefined];
  return (row) => {
    const value = column.values[row] ?? 0;
    if (value !== 0 && value !== 1) return labelOf(row);
    classes[value] ??= labelOf(row);
    return classes[value] ?? labelOf(row);
  };
}

function labelFill(place: number, labelOf: (row: number) => number | Fault): Fill {
  return (sample, row) => {
    const label = labelOf(row);
    if (typeof label === "object") return label;
    sample.labels[place] = label;
    return undefined;
  };
}

function weightFill(column: Column, { name }: TargetField): Fill {
  return (sample, row) => {
    const text = column.form === "texts" ? textAt(column, row).trim() : "";
    const isNone = column.form === "texts" && text === "";
    const value = isNone ? Number.NaN : text === "" ? numberAt(column, row) : decimal(text);
    if (value !== undefined && Number.isFinite(Math.fround(value)) && value >= 0) {
      sample.sampleWeight = value;
      return undefined;
    }
    const kind = `expected \`${name}\`, the weight of the sample, to be a number >= 0`;
    return { kind, got: show(textAt(column, row)) };
  };
}

function groupFill(column: Column, { name }: TargetField): Fill {
  return (sample, row) => {
    const text = textAt(column, row);
    if (text === "") return { kind: `\`${name}\`, the group of the sample, is missing` };
    sample.group.set(groupOf(text));
    return undefined;
  };
}

/** The number of a column of numbers or ids; NaN: there is none. */
function numberAt(column: Column, row: number): number {
  if (column.form === "numbers") return column.values[row] ?? Number.NaN;
  const text = textAt(column, row);
  return text === "" ? Number.NaN : Number(text);
}

/** Sets a dense feature to the number of a row. */
export function denseFill(column: Column, field: DenseField): Fill {
  if (column.form === "texts")
    return (sample, row) => decodeDense(sample, textAt(column, row), field);
  const { at, log, missing } = field;
  return (sample, row) => {
    const value = numberAt(column, row);
    // What is missing, and what float32 does not hold, is as in text.
    if (!Number.isFinite(Math.fround(value))) {
      return decodeDense(sample, Number.isNaN(value) ? "" : String(value), field);
    }
    sample.missing[at] = 0;
    if (missing === "indicator") sample.dense[at + 1] = 0;
    sample.dense[at] = log ? Math.log1p(Math.max(value, 0)) : value;
    return undefined;
  };
}

/** Appends the ids of a row to a feature's bag. */
export function bagFill(
  column: Column,
  field: CategoricalField,
  feature: number,
  reader: BagReader | undefined,
): Fill {
  const { separator, weightSeparator } = field;
  const isText =
    column.form === "numbers" || separator !== undefined || weightSeparator !== undefined;
  if (isText || reader === undefined) {
    return (sample, row) => decodeBag(sample, feature, textAt(column, row), field);
  }
  const { offsets, weights } = column;
  const fill = reader.fillOf(column);
  return (sample, row) => {
    const end = offsets[row + 1] ?? 0;
    for (let at = offsets[row] ?? 0; at < end; at++) {
      const weight = weights === undefined ? 1 : (weights[at] ?? Number.NaN);
      if (!Number.isFinite(weight)) return noWeight(field, weight);
      const fault = fill(sample, at, weight);
      if (fault !== undefined) return fault;
    }
    return sample.lengths[feature] === 0 ? decodeMissing(sample, feature, field) : undefined;
  };
}

function noWeight({ name }: CategoricalField, weight: number): Fault {
  const kind = `expected every id of \`${name}\` to have a number as its weight`;
  return { kind, got: Number.isNaN(weight) ? "nothing" : String(weight) };
}
