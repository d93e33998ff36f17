// Appends ids of columns to bags: integers and texts, hashed or as they are, with 32 or 64 bits.
// The rows of ids of 32 bits are found for a whole column at once, those of a dictionary once for
// each of its entries.

import assert from "node:assert/strict";
import { type Addon, loadAddon } from "../../ports/addon.ts";
import { murmurHash3 } from "../murmur-hash.ts";
import type { Sample } from "../sample.ts";
import type { Fault } from "../text/faults.ts";
import { decodeId } from "../text/line-decoder.ts";
import type { Column, IdColumn, TextColumn } from "./column.ts";
import { type HashIds, idHasher, textOfId } from "./hashed-ids.ts";
import type { CategoricalField } from "./named-columns.ts";

/** Appends entry `at` of a column to a feature's bag. Returns its fault, if it has one. */
export type FillEntry = (sample: Sample, at: number, weight: number) => Fault | undefined;

/** A column of entries. */
export type BagColumn = Exclude<Column, { form: "numbers" }>;

/** Reads the entries of a feature's columns. */
export interface BagReader {
  /** What fills the entries of a column, valid until the next column. */
  fillOf(column: BagColumn): FillEntry;
  /** The rows of a column, valid until the next column. Undefined where ids have 64 bits. */
  readonly rowsOf: ((column: BagColumn) => EntryRows) | undefined;
}

/** The row of each entry of a column, of 32 bits; `textWay`: it goes the way of text. */
export interface EntryRows {
  /** (N): of each entry; or, where there are codes, of each code. */
  readonly rows: Int32Array;
  /** (N): the code of each entry. */
  readonly codes?: Int32Array | undefined;
}

/** Instead of a row. Rows of tables are not negative. */
export const textWay = -1;

/** The reader of a feature's entries. */
export function bagReader(field: CategoricalField, feature: number): BagReader {
  const textEntry = byText(field, feature);
  if (field.isWide) {
    const fillOf = (column: BagColumn) => {
      const slowly = textEntry(column);
      return isWatched(field) ? slowly : wideEntry(column, slowly, field, feature);
    };
    return { fillOf, rowsOf: undefined };
  }
  const ofIds = ofDictionary(field.ids === "hash" ? idHasher(field) : plainRows(field));
  const ofTexts = textRows(field);
  let last: (EntryRows & { readonly column: BagColumn }) | undefined;
  const rowsOf = (column: BagColumn) => {
    if (last?.column !== column) {
      const found = column.form === "ids" ? ofIds(column) : { rows: ofTexts(column) };
      last = { ...found, column };
    }
    return last;
  };
  const fillOf = (column: BagColumn): FillEntry => {
    if (isWatched(field)) return textEntry(column);
    const { rows, codes } = rowsOf(column);
    const slowly = textEntry(column);
    return (sample, at, weight) => {
      const row = rows[codes === undefined ? at : (codes[at] ?? 0)] ?? textWay;
      if (row !== textWay && sample.push(feature, row, weight)) return undefined;
      return slowly(sample, at, weight);
    };
  };
  return { fillOf, rowsOf };
}

/** Whether the values of a column are counted, as the way of text does. */
function isWatched({ watch }: CategoricalField): boolean {
  return watch?.isOpen === true;
}

/** The way of text, of any entry. A text without characters is no entry. */
function byText(field: CategoricalField, feature: number): (column: BagColumn) => FillEntry {
  return (column) => (sample, at, weight) => {
    const isIds = column.form === "ids";
    const text = isIds ? textOfId(column, at) : (column.dictionary[column.codes[at] ?? 0] ?? "");
    return text === "" ? undefined : decodeId(sample, feature, text, weight, field);
  };
}

/** Ids of 64 bits as they are. */
function wideEntry(
  column: BagColumn,
  slowly: FillEntry,
  { offset }: CategoricalField,
  feature: number,
): FillEntry {
  if (column.form !== "ids") return slowly;
  const { ids, isUnsigned } = column;
  const halves = new Int32Array(ids.buffer, ids.byteOffset, 2 * ids.length);
  return (sample, at, weight) => {
    const [low, high] = [halves[2 * at] ?? 0, halves[2 * at + 1] ?? 0];
    const mayPush = offset === 0 && (high >= 0 || isUnsigned !== true);
    if (mayPush && sample.push(feature, low, weight, high)) return undefined;
    return slowly(sample, at, weight);
  };
}

/** The rows of ids that lie in the table as they are: by the addon, where it is built. */
export function plainRows(
  field: Pick<CategoricalField, "rows" | "offset">,
  addon: Addon | undefined = loadAddon(),
): HashIds {
  if (addon === undefined) return plainRowsOf(field);
  return ({ ids, offsets }) => {
    const found = new Int32Array(offsets.at(-1) ?? 0);
    // The addon checks types alone: with a wrong length it would read other memory.
    assert(ids.length >= found.length, "an id for each entry");
    addon.rowsOfIds(found, ids, field.offset, field.rows);
    return found;
  };
}

/** What defines these rows. */
export function plainRowsOf({ rows, offset }: Pick<CategoricalField, "rows" | "offset">): HashIds {
  return ({ ids, offsets }) => {
    const halves = new Int32Array(ids.buffer, ids.byteOffset, 2 * ids.length);
    const found = new Int32Array(offsets.at(-1) ?? 0);
    for (let at = 0; at < found.length; at++) {
      const [low, high] = [halves[2 * at] ?? 0, halves[2 * at + 1] ?? 0];
      const id = low - offset;
      found[at] = high === low >> 31 && id >= 0 && id < rows ? id : textWay;
    }
    return found;
  };
}

/** Finds the rows of a dictionary's ids once: its column has their codes. */
function ofDictionary(rowsOf: HashIds): (column: IdColumn) => EntryRows {
  let known: BigInt64Array | undefined;
  let rows: Int32Array = new Int32Array(0);
  return (column) => {
    const { coded, isUnsigned } = column;
    if (coded === undefined) return { rows: rowsOf(column) };
    const { dictionary, codes } = coded;
    if (known !== dictionary) {
      known = dictionary;
      const whole = Int32Array.of(0, dictionary.length);
      rows = rowsOf({ form: "ids", ids: dictionary, offsets: whole, isUnsigned });
    }
    return { rows, codes };
  };
}

/** The rows of texts: hashed, each text of a dictionary once. Integers go the way of text. */
function textRows({ ids, rows, seed }: CategoricalField): (column: TextColumn) => Int32Array {
  let known: readonly string[] | undefined;
  let found = new Int32Array(0); // 0: not hashed yet.
  return ({ dictionary, codes }) => {
    if (ids !== "hash") return new Int32Array(codes.length).fill(textWay);
    const places = new Int32Array(codes.length);
    for (let at = 0; at < places.length; at++) {
      const code = codes[at] ?? 0;
      if (known !== dictionary || code >= found.length) {
        known = dictionary;
        found = new Int32Array(2 * dictionary.length);
      }
      if (found[code] === 0) {
        const text = dictionary[code] ?? "";
        found[code] = text === "" ? textWay : 1 + (murmurHash3(text, seed) % (rows - 1));
      }
      places[at] = found[code] ?? textWay;
    }
    return places;
  };
}
