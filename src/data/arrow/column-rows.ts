// Converts rows of an Arrow column into a `Column` of the form that the job wants: numbers, lists
// of ids or texts, and such lists with weights.

import { Type } from "apache-arrow/fb/type";
import type { Column } from "../columnar/column.ts";
import type { TextPool } from "../parquet/decode/texts.ts";
import { formOf, type WantedColumn } from "../tables/asked-columns.ts";
import { CorruptFile } from "../tables/damage.ts";
import type { FieldPlace } from "./batch-buffers.ts";
import type { ArrowLeaf, ArrowShape } from "./shapes.ts";
import { nodeOf, offsetsOf, type Source, type Values, valuesOf } from "./values.ts";

/** Reads rows `from` until `end` (exclusive) of a record batch as a column. @throws CorruptFile */
export type ReadRows = (from: number, end: number) => Column;

/** A reader of a column in a record batch. */
export interface ColumnRows {
  readonly read: ReadRows;
  /** Number of entries in all its lists; for a column without lists, the number of rows. */
  readonly entries: number;
}

/**
 * Opens the rows of a column. `places` holds the structs around its field, from the outermost on,
 * then the field. `pool` keeps the column's texts across batches. @throws CorruptFile
 */
export function columnRows(
  wanted: WantedColumn<ArrowShape>,
  places: readonly FieldPlace[],
  source: Source,
  rows: number,
  pool: TextPool,
): ColumnRows {
  const { shape } = wanted;
  const outer = places.slice(0, -1).map((place) => ofLength(nodeOf(place, source), rows));
  const place = places.at(-1);
  if (place === undefined) throw new TypeError("a column has a field");
  const isWithin = (row: number) => outer.every(({ isThere }) => isThere(row));
  const entriesOf = entryReader(shape.leaf, formOf(wanted), pool);
  if (shape.list === "none") {
    const all = ofLength(valuesOf(place, shape.leaf, source), rows);
    const values = { ...all, isThere: withIn(all.isThere, outer.length, isWithin) };
    if (entriesOf === undefined) {
      return { entries: rows, read: (from, end) => numbers(values, shape.leaf, from, end) };
    }
    return { entries: rows, read: (from, end) => singles(values, entriesOf, from, end) };
  }
  const list = ofLength(nodeOf(place, source), rows);
  const isThere = withIn(list.isThere, outer.length, isWithin);
  const { ids, weights } = entryValues(place, shape, source);
  const lists = { isThere, ...rangesOf(place, source, rows, ids.length) };
  if (entriesOf === undefined) throw new TypeError("a list is of ids");
  const read = (from: number, end: number) => listColumn(lists, ids, weights, entriesOf, from, end);
  return { entries: ids.length, read };
}

function withIn(
  isThere: (row: number) => boolean,
  structs: number,
  isWithin: (row: number) => boolean,
): (row: number) => boolean {
  return structs === 0 ? isThere : (row) => isWithin(row) && isThere(row);
}

function ofLength<Node extends { readonly length: number }>(node: Node, rows: number): Node {
  if (node.length === rows) return node;
  throw new CorruptFile(`it has ${node.length} values for ${rows} rows`);
}

/** One number per row; NaN where the row has no value. */
function numbers(values: Values, { kind }: ArrowLeaf, from: number, end: number): Column {
  const found = new Float64Array(end - from);
  for (let row = from; row < end; row++) {
    found[row - from] = values.isThere(row) ? values.numberAt(row) : Number.NaN;
  }
  return { form: "numbers", values: found, ...(kind === "moment" ? { isTime: true } : {}) };
}

/** Collects values by their position, and builds a column of the collected values. */
interface Entries {
  begin(countMax: number): void;
  add(values: Values, at: number): void;
  column(offsets: Int32Array, count: number): Exclude<Column, { form: "numbers" }>;
}

/** The collector for a form of column; undefined for numbers, which have no entries. */
function entryReader(leaf: ArrowLeaf, form: Column["form"], pool: TextPool): Entries | undefined {
  switch (form) {
    case "numbers":
      return undefined;
    case "ids":
      return idEntries(leaf);
    case "texts":
      return textEntries(pool);
    default:
      return form satisfies never;
  }
}

function idEntries({ field }: ArrowLeaf): Entries {
  let pairs = new Int32Array(0);
  let at = 0;
  return {
    begin(countMax) {
      pairs = new Int32Array(2 * countMax);
      at = 0;
    },
    add(values, i) {
      pairs[at++] = values.lowAt(i);
      pairs[at++] = values.highAt(i);
    },
    column(offsets, count) {
      const isWide = field.isUnsigned && field.bits === 64;
      const ids = new BigInt64Array(pairs.buffer, 0, count);
      return { form: "ids", offsets, ids, ...(isWide ? { isUnsigned: true } : {}) };
    },
  };
}

/**
 * A text of an Arrow dictionary keeps its code in that dictionary; any other text gets a code of
 * the pool.
 */
function textEntries(pool: TextPool): Entries {
  let codes = new Int32Array(0);
  let count = 0;
  let known: readonly string[] | undefined;
  return {
    begin(countMax) {
      codes = new Int32Array(countMax);
      count = 0;
      pool.begin();
    },
    add({ texts, codeAt, textAt }, i) {
      known = texts;
      codes[count++] = codeAt === undefined ? pool.codeOf(textAt(i)) : codeAt(i);
    },
    column(offsets, length) {
      const dictionary = known ?? pool.dictionary;
      return { form: "texts", offsets, codes: codes.subarray(0, length), dictionary };
    },
  };
}

/** One id or text per row, as a list of one entry; a missing value is an empty list. */
function singles(values: Values, entries: Entries, from: number, end: number): Column {
  const offsets = new Int32Array(end - from + 1);
  entries.begin(end - from);
  let count = 0;
  for (let row = from; row < end; row++) {
    if (values.isThere(row)) {
      entries.add(values, row);
      count++;
    }
    offsets[row - from + 1] = count;
  }
  return entries.column(offsets, count);
}

/** The lists of a column. */
interface Lists {
  readonly isThere: (row: number) => boolean;
  readonly startOf: (row: number) => number;
  readonly endOf: (row: number) => number;
}

/** The range of each row's entries. Offsets are checked when a row is read. */
function rangesOf(
  place: FieldPlace,
  source: Source,
  rows: number,
  entries: number,
): Pick<Lists, "startOf" | "endOf"> {
  const { type, size } = place.field;
  if (type === Type.FixedSizeList) {
    if (size < 1 || size * rows > entries) {
      throw new CorruptFile(`it has ${entries} entries for ${rows} lists of ${size}`);
    }
    return { startOf: (row) => row * size, endOf: (row) => (row + 1) * size };
  }
  const offsetAt = offsetsOf(place, source, rows);
  const startOf = (row: number) => {
    const [start, end] = [offsetAt(row), offsetAt(row + 1)];
    if (start >= 0 && start <= end && end <= entries) return start;
    throw new CorruptFile(
      `the list of row ${row} has the entries ${start} to ${end} of ${entries}`,
    );
  };
  return { startOf, endOf: (row) => offsetAt(row + 1) };
}

/** The values of a list's entries: the ids, and their weights where the list has them. */
function entryValues(
  { children }: FieldPlace,
  { leaf, weights }: ArrowShape,
  source: Source,
): { readonly ids: Values; readonly weights: Values | undefined } {
  const [entry] = children;
  if (entry === undefined) throw new TypeError("a list has entries");
  if (weights === undefined) return { ids: valuesOf(entry, leaf, source), weights };
  const [first, second] = entry.children;
  if (first === undefined || second === undefined) throw new TypeError("an entry is a pair");
  const pairs = nodeOf(entry, source);
  const ids = ofLength(valuesOf(first, leaf, source), pairs.length);
  const numbersOf = ofLength(valuesOf(second, weights, source), pairs.length);
  return {
    ids: { ...ids, isThere: (at) => pairs.isThere(at) && ids.isThere(at) },
    weights: numbersOf,
  };
}

/** Builds a column of lists. Entries without an id are left out; a missing weight becomes NaN. */
function listColumn(
  { isThere, startOf, endOf }: Lists,
  ids: Values,
  weights: Values | undefined,
  entries: Entries,
  from: number,
  end: number,
): Column {
  let most = 0;
  for (let row = from; row < end; row++) {
    if (isThere(row)) most += -startOf(row) + endOf(row);
  }
  if (most > ids.length) throw new CorruptFile(`its lists have ${most} of ${ids.length} entries`);
  const offsets = new Int32Array(end - from + 1);
  const present = new Uint8Array(end - from);
  const weightOf = new Float32Array(weights === undefined ? 0 : most);
  entries.begin(most);
  let [count, hasAbsent] = [0, false];
  for (let row = from; row < end; row++) {
    if (isThere(row)) {
      present[row - from] = 1;
      const last = endOf(row);
      for (let at = startOf(row); at < last; at++) {
        if (!ids.isThere(at)) continue;
        entries.add(ids, at);
        if (weights !== undefined) {
          weightOf[count] = weights.isThere(at) ? weights.numberAt(at) : Number.NaN;
        }
        count++;
      }
    } else hasAbsent = true;
    offsets[row - from + 1] = count;
  }
  const column = entries.column(offsets, count);
  const own = weights === undefined ? {} : { weights: weightOf.subarray(0, count) };
  return { ...column, ...own, ...(hasAbsent ? { present } : {}) };
}
