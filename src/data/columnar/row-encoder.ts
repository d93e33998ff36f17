// Encodes the rows of batches into samples: batches of columnar files and chunks of lines. A number
// means what its text would mean, so that the same data as text and as columns give identical
// samples, byte for byte. docs/data.md has the rules.
//
// Frequent cases have fast paths: numbers are used unchanged, and rows of ids and texts are hashed
// once. Everything else, including faults, takes the text path: a column whose form a transform
// does not read is converted by way of its text, too.

import { bagIdsMax, Sample } from "../sample.ts";
import type { SourceRows } from "../source-rows.ts";
import type { KeyCollector } from "../split-keys.ts";
import { groupOf } from "../targets.ts";
import { type LineFault, show } from "../text/faults.ts";
import type { LabelReader } from "../text/labels.ts";
import { decimal, decodeBag, decodeDense, decodeMissing } from "../text/line-decoder.ts";
import { sourceOf } from "../text/source-columns.ts";
import type { CompiledTransforms, MadeColumns } from "../transforms/compile.ts";
import { type BagReader, bagReader, isWatched } from "./bag-reader.ts";
import {
  type Column,
  type FieldColumn,
  millisecondsOf,
  textAt,
  textsAt,
  timeText,
} from "./column.ts";
import type { CategoricalField, DenseField, FieldColumns, TargetField } from "./named-columns.ts";
import { type Fill, logOf, type PlainRecords, recordMaker } from "./plain-records.ts";

/** Fills samples from the rows of batches. */
export interface RowEncoder {
  /**
   * Starts a batch, whose rows can be encoded until the next call. `place`: index of its file,
   * which sampling depends on. @default 0
   */
  begin(batch: SourceRows, place?: number): void;
  /** The outputs of the transforms for the batch; undefined without transforms. */
  made(): MadeBatch | undefined;
  /** Whether sampling keeps a row. */
  isKept(row: number): boolean;
  /** Fills a sample from a row of the batch. Returns the row's fault, if any. */
  encode(sample: Sample, row: number): LineFault | undefined;
  /**
   * The finished records of the batch's plain rows; undefined if the fast path does not apply. A
   * row without a record must be passed to `encode`.
   */
  records(): PlainRecords | undefined;
  /** Fills the features only, for a prediction; the batch may then lack the targets. */
  encodeFeatures(sample: Sample, row: number): LineFault | undefined;
}

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
  const { dense, categorical, labels, weight, group, key } = columns;
  const readers = categorical.map((column, feature) => bagReader(column, feature));
  const known = labels.map((): KnownLabels => ({ values: new Map() }));
  let now: SourceRows | undefined;
  let made: MadeBatch | undefined;
  /** Fillers for the current batch, created when the first row needs them. */
  let targets: readonly Fill[] | undefined;
  let features: readonly Fill[] | undefined;

  const columnOf = (field: number): Column | FieldColumn => {
    const name = header[field] ?? "";
    const isMade = transforms?.outputs.has(name) === true;
    const column = isMade ? made?.columns.get(name) : now?.columns.get(name);
    if (column === undefined || column.form === "lists") {
      throw new TypeError(`a batch lacks the column ${name}`);
    }
    return column;
  };
  const denseOf = (index: number) => now?.dense?.[index] ?? columnOf(dense[index]?.field ?? -1);
  const bagsOf = (feature: number) => {
    return now?.bags?.[feature] ?? columnOf(categorical[feature]?.field ?? -1);
  };
  const runsOf = (feature: number) => {
    const found = made?.columns.runsOf(header[categorical[feature]?.field ?? -1] ?? "");
    if (found === undefined || found.column.form === "lists") return { column: bagsOf(feature) };
    return { column: found.column, runs: found.runs };
  };
  const labelOf = (place: number) => {
    const readLabel = columns.readLabels[place];
    if (readLabel === undefined) throw new TypeError("a label has a reader");
    const column = columnOf(labels[place] ?? -1);
    return labelReaderOf(column, readLabel, known[place] ?? { values: new Map() });
  };
  const weightAndGroup = () => ({
    weight: weight && weightFill(columnOf(weight.field), weight),
    group: group && groupFill(columnOf(group.field), group),
  });
  const readKey = (): Fill | undefined => {
    return key === undefined || keys === undefined ? undefined : keyFill(columnOf(key), keys);
  };
  const makeRecords = recordMaker(columns, { readers, denseOf, runsOf, labelOf, weightAndGroup });

  const run = (all: readonly Fill[], sample: Sample, row: number): LineFault | undefined => {
    for (const fill of all) {
      const fault = fill(sample, row);
      if (fault !== undefined) return fault;
    }
    return undefined;
  };
  const runFeatures = (sample: Sample, row: number) => {
    const unmade = made?.faults.get(row);
    if (unmade !== undefined) return unmade;
    sample.clear();
    features ??= [
      ...dense.map((field, i) => denseFill(denseOf(i), field)),
      ...categorical.map((field, i) => bagFill(bagsOf(i), field, i, readers[i])),
    ];
    return run(features, sample, row);
  };
  const runTargets = (sample: Sample, row: number) => {
    if (targets === undefined) {
      const others = weightAndGroup();
      const all = [readKey(), ...labels.map((_, i) => labelFill(i, labelOf(i)))];
      targets = [...all, others.weight, others.group].filter((fill) => fill !== undefined);
    }
    return run(targets, sample, row);
  };
  return {
    begin(batch, place = 0) {
      now = batch;
      made = transforms && madeBatch(transforms, columns, header, batch, place);
      targets = undefined;
      features = undefined;
    },
    made: () => made,
    isKept: (row) => made?.kept === undefined || made.kept[row] === 1,
    encodeFeatures: (sample, row) => now?.faultOf?.(row) ?? runFeatures(sample, row),
    encode: (sample, row) => {
      return now?.faultOf?.(row) ?? runTargets(sample, row) ?? runFeatures(sample, row);
    },
    records() {
      const found = now && makeRecords?.(now.rows);
      if (found === undefined || now === undefined) return undefined;
      const { isPlain } = found;
      for (const row of made?.faults.keys() ?? []) isPlain[row] = 0;
      if (now.faultOf !== undefined) {
        for (let row = 0; row < now.rows; row++) {
          if (isPlain[row] === 1 && now.faultOf(row) !== undefined) isPlain[row] = 0;
        }
      }
      const fillKey = readKey();
      if (fillKey === undefined) return found;
      for (let row = 0; row < now.rows; row++) {
        if (fillKey(noSample, row) !== undefined) isPlain[row] = 0;
      }
      return found;
    },
  };
}

/** Creates a reader of split keys, which leaves the sample alone. */
function keyFill(column: Column | FieldColumn, keys: Pick<KeyCollector, "read" | "take">): Fill {
  if (column.form !== "numbers" || column.isTime !== true) {
    return (_, row) => keys.read(textsAt(column, row).join("|")); // Slice columns may hold lists.
  }
  return (_, row) => {
    const seconds = column.values[row] ?? Number.NaN;
    if (Number.isNaN(seconds)) return keys.read("");
    return keys.take({ form: "date", value: millisecondsOf(seconds) }, timeText(seconds));
  };
}

/** The sample of readers that leave it alone. */
const noSample = new Sample({ dense: 0, features: 0 });

/** Labels that are already parsed. */
interface KnownLabels {
  readonly values: Map<string | number, number | LineFault>;
  /** (257): the label of each text of one byte; NaN if that text is no label, and at 256. */
  short?: Float64Array;
}

/** Most cached label values of a column. */
const labelsMax = 4096;

/** Creates a reader of a column's labels that parses equal values once. */
function labelReaderOf(
  column: Column | FieldColumn,
  readLabel: LabelReader,
  known: KnownLabels,
): (row: number) => number | LineFault {
  if (column.form === "fields") {
    known.short ??= Float64Array.from({ length: 257 }, (_, byte) => {
      const label = byte === 256 ? Number.NaN : readLabel(String.fromCharCode(byte));
      return typeof label === "number" ? label : Number.NaN;
    });
    const { short } = known;
    return (row) => {
      const label = short[column.byteOf(row)] ?? Number.NaN;
      return Number.isNaN(label) ? readLabel(column.textOf(row)) : label;
    };
  }
  const { values } = known;
  const labelOf = (row: number) => {
    const key = column.form === "numbers" ? (column.values[row] ?? 0) : textAt(column, row);
    const before = values.get(key);
    if (before !== undefined) return before;
    if (values.size >= labelsMax) values.clear();
    const label = readLabel(textAt(column, row));
    values.set(key, label);
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

function weightFill(column: Column | FieldColumn, { name }: TargetField): Fill {
  const isText = column.form === "texts" || column.form === "fields";
  return (sample, row) => {
    const text = isText ? textAt(column, row).trim() : "";
    const isNone = isText && text === "";
    const value = isNone ? Number.NaN : text === "" ? numberAt(column, row) : decimal(text);
    if (value !== undefined && Number.isFinite(Math.fround(value)) && value >= 0) {
      sample.sampleWeight = value;
      return undefined;
    }
    const kind = `expected \`${name}\`, the weight of the sample, to be a number >= 0`;
    return { kind, got: show(textAt(column, row)) };
  };
}

function groupFill(column: Column | FieldColumn, { name }: TargetField): Fill {
  return (sample, row) => {
    const text = textAt(column, row);
    if (text === "") return { kind: `\`${name}\`, the group of the sample, is missing` };
    sample.group.set(groupOf(text));
    return undefined;
  };
}

/** The number in a row of a column of numbers or ids; NaN if missing. */
function numberAt(column: Column | FieldColumn, row: number): number {
  if (column.form === "numbers") return column.values[row] ?? Number.NaN;
  const text = textAt(column, row);
  return text === "" ? Number.NaN : Number(text);
}

/** Sets a dense feature to the number of a row. */
export function denseFill(column: Column | FieldColumn, field: DenseField): Fill {
  const { at, log, missing } = field;
  const parsed = column.form === "fields" ? column.numbers : undefined;
  if (column.form === "texts" || (column.form === "fields" && parsed === undefined)) {
    return (sample, row) => decodeDense(sample, textAt(column, row), field);
  }
  const isText = column.form === "fields";
  return (sample, row) => {
    const value = parsed === undefined ? numberAt(column, row) : (parsed[row] ?? Number.NaN);
    // Missing values and values beyond the range of float32 take the text path.
    if (!Number.isFinite(Math.fround(value))) {
      const text = isText ? textAt(column, row) : Number.isNaN(value) ? "" : String(value);
      return decodeDense(sample, text, field);
    }
    sample.missing[at] = 0;
    if (missing === "indicator") sample.dense[at + 1] = 0;
    sample.dense[at] = log ? logOf(value) : value;
    return undefined;
  };
}

/** Appends the ids of a row to a feature's bag. */
export function bagFill(
  column: Column | FieldColumn,
  field: CategoricalField,
  feature: number,
  reader: BagReader | undefined,
): Fill {
  if (column.form === "fields") return fieldFill(column, field, feature);
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

/** Appends the ids of a line's field. A field with an entry that was not parsed is read as text. */
function fieldFill(column: FieldColumn, field: CategoricalField, feature: number): Fill {
  // Only the text path counts values.
  const { offsets, rows } = (isWatched(field) ? undefined : column.entries) ?? noEntries;
  return (sample, row) => {
    const [first, end] = [offsets[row] ?? 0, offsets[row + 1] ?? 0];
    let isParsed = end > first && end - first <= bagIdsMax;
    for (let at = first; at < end && isParsed; at++) isParsed = (rows[at] ?? -1) >= 0;
    if (!isParsed) return decodeBag(sample, feature, column.textOf(row), field);
    for (let at = first; at < end; at++) sample.push(feature, rows[at] ?? 0);
    return undefined;
  };
}

const noEntries = { offsets: new Int32Array(0), rows: new Int32Array(0) };

function noWeight({ name }: CategoricalField, weight: number): LineFault {
  const kind = `expected every id of \`${name}\` to have a number as its weight`;
  return { kind, got: Number.isNaN(weight) ? "nothing" : String(weight) };
}

/** The outputs of the transforms for a batch. */
export interface MadeBatch extends Pick<MadeColumns, "columns" | "kept"> {
  /** Faults of rows whose features could not be made, by row. */
  readonly faults: ReadonlyMap<number, LineFault>;
}

/** Runs the transforms on a batch. `place` is the index of the batch's file. */
function madeBatch(
  transforms: CompiledTransforms,
  { sources: fields = [] }: FieldColumns,
  header: readonly string[],
  { rows, firstRow, columns }: SourceRows,
  place: number,
): MadeBatch {
  const faults = new Map<number, LineFault>();
  const sources = transforms.sources.map((source, i) => {
    const column = columns.get(header[fields[i] ?? -1] ?? "");
    if (column === undefined) throw new TypeError(`a batch lacks the column ${source.column}`);
    return sourceOf(source, column, rows, faults);
  });
  const made = transforms.run(sources, { rows, place, firstRow });
  for (const [row, kind] of made.faults) if (!faults.has(row)) faults.set(row, { kind });
  return { ...made, faults };
}
