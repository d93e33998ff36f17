// Encodes the rows of columnar batches into samples by the rules for text: a number means what its
// text would mean, so that the same data as text and as columns give identical samples, byte for
// byte. docs/data.md has the rules.
//
// Frequent cases have fast paths: numbers are used unchanged, and rows of ids and texts are hashed
// once. Everything else, including faults, takes the text path.

import type { Sample } from "../sample.ts";
import { groupOf } from "../targets.ts";
import { type LineFault, show } from "../text/faults.ts";
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
   * Starts a batch, whose rows can be encoded until the next call. `place`: index of its file,
   * which sampling depends on. @default 0
   */
  begin(batch: RowBatch, place?: number): void;
  /** Whether sampling keeps a row. */
  isKept(row: number): boolean;
  /** Fills a sample from a row of the batch. Returns the row's fault, if any. */
  encode(sample: Sample, row: number): LineFault | undefined;
  /**
   * The finished records of the batch's plain rows; undefined if the fast path does not apply. A
   * row without a record must be passed to `encode`.
   */
  records(): PlainRecords | undefined;
  /** Fills the features only, for a prediction. */
  encodeFeatures(sample: Sample, row: number): LineFault | undefined;
}

/** Most cached label values of a column. */
const labelsMax = 4096;

/**
 * Creates a row encoder. `header` holds the column names, to which the field indices of `columns`
 * refer. `keys` collects the split keys of the rows, if a column splits the data. `transforms` make
 * additional columns, whose names end `header`.
 */
export function createRowEncoder(
  columns: FieldColumns,
  header: readonly string[],
  keys?: Pick<KeyCollector, "read" | "take">,
  transforms?: CompiledTransforms,
): RowEncoder {
  const bags = columns.categorical.map((column, feature) => bagReader(column, feature));
  /** Fillers for the current batch, created when the first row is encoded. */
  let fills: { readonly targets: Fill[]; readonly features: Fill[] } | undefined;
  const labels = columns.labels.map(() => new Map<string | number, number | LineFault>());
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
  let readKey: ((row: number) => LineFault | undefined) | undefined;

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

  const run = (all: readonly Fill[], sample: Sample, row: number): LineFault | undefined => {
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

/** Creates a reader of split keys, which returns the fault of a row, if any. */
function keyReader(
  column: Column,
  keys: Pick<KeyCollector, "read" | "take">,
): (row: number) => LineFault | undefined {
  if (column.form !== "numbers" || column.isTime !== true) {
    return (row) => keys.read(textsAt(column, row).join("|")); // Slice columns may hold lists.
  }
  return (row) => {
    const seconds = column.values[row] ?? Number.NaN;
    if (Number.isNaN(seconds)) return keys.read("");
    return keys.take({ form: "date", value: millisecondsOf(seconds) }, timeText(seconds));
  };
}

function keyFill(readKey: (row: number) => LineFault | undefined): Fill {
  return (_, row) => readKey(row);
}

/** Creates a reader of a column's labels that parses equal values once. */
function labelReaderOf(
  column: Column,
  readLabel: LabelReader,
  known: Map<string | number, number | LineFault>,
): (row: number) => number | LineFault {
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
  // Most labels are 0 or 1, which need no map lookup.
  const classes: (number | LineFault | undefined)[] = [undefined, undefined];
  return (row) => {
    const value = column.values[row] ?? 0;
    if (value !== 0 && value !== 1) return labelOf(row);
    classes[value] ??= labelOf(row);
    return classes[value] ?? labelOf(row);
  };
}

function labelFill(place: number, labelOf: (row: number) => number | LineFault): Fill {
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

/** The number in a row of a column of numbers or ids; NaN if missing. */
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
    // Missing values and values beyond the range of float32 take the text path.
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

function noWeight({ name }: CategoricalField, weight: number): LineFault {
  const kind = `expected every id of \`${name}\` to have a number as its weight`;
  return { kind, got: Number.isNaN(weight) ? "nothing" : String(weight) };
}
