// Appends the ids of columns to bags: integers and texts, hashed or unchanged, of 32 or 64 bits.
// The table rows of 32-bit ids are computed for a whole column at once; a dictionary's rows once
// per entry of the dictionary. The addon hashes identically and faster (native/ingest/ids.h).

import assert from "node:assert/strict";
import { type Addon, loadAddon } from "../../ports/addon.ts";
import { mix32, murmurHash3 } from "../murmur-hash.ts";
import type { Sample } from "../sample.ts";
import type { LineFault } from "../text/faults.ts";
import { decodeId } from "../text/line-decoder.ts";
import { type Column, type IdColumn, type TextColumn, textOfId } from "./column.ts";
import type { CategoricalField } from "./named-columns.ts";

/** Appends entry `at` of a column to a feature's bag. Returns the entry's fault, if any. */
export type FillEntry = (sample: Sample, at: number, weight: number) => LineFault | undefined;

/** A column of entries. */
export type BagColumn = Exclude<Column, { form: "numbers" }>;

/** Reads the entries of a feature's columns. */
export interface BagReader {
  /** Returns the filler for a column, valid until the next column. */
  fillOf(column: BagColumn): FillEntry;
  /**
   * Returns the table rows of a column's entries, valid until the next column. Undefined for ids of
   * 64 bits.
   */
  readonly rowsOf: ((column: BagColumn) => EntryRows) | undefined;
}

/**
 * The table row of each entry of a column, or `textWay` for an entry that must be decoded as text.
 */
export interface EntryRows {
  /** (N): row of each entry; with `codes`, row of each code instead. */
  readonly rows: Int32Array;
  /** (N): the code of each entry. */
  readonly codes?: Int32Array | undefined;
}

/** Marks an entry that takes the text path. Table rows are never negative. */
export const textWay = -1;

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

/** Whether the values of the field are being counted; only the text path counts them. */
export function isWatched({ watch }: CategoricalField): boolean {
  return watch?.isOpen === true;
}

/** The text path: decodes any entry as its text. An empty text is not an entry. */
function byText(field: CategoricalField, feature: number): (column: BagColumn) => FillEntry {
  return (column) => (sample, at, weight) => {
    const isIds = column.form === "ids";
    const text = isIds ? textOfId(column, at) : (column.dictionary[column.codes[at] ?? 0] ?? "");
    return text === "" ? undefined : decodeId(sample, feature, text, weight, field);
  };
}

/** Appends 64-bit ids unchanged; `slowly` handles offsets and ids out of range. */
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

/** Finds the rows of unhashed ids (id minus offset), with the addon if it is built. */
export function plainRows(
  field: Pick<CategoricalField, "rows" | "offset">,
  addon: Addon | undefined = loadAddon(),
): HashIds {
  if (addon === undefined) return plainRowsOf(field);
  return ({ ids, offsets, isUnsigned }) => {
    const found = new Int32Array(offsets.at(-1) ?? 0);
    // The upper half of the unsigned ids look negative, and a negative offset would make them rows.
    if (isUnsigned === true && field.offset < 0) return found.fill(textWay);
    // The addon checks array types only: a wrong length would make it read memory outside them.
    assert(ids.length >= found.length, "an id for each entry");
    addon.rowsOfIds(found, ids, field.offset, field.rows);
    return found;
  };
}

/** The reference implementation of `plainRows`, in TypeScript. */
export function plainRowsOf({ rows, offset }: Pick<CategoricalField, "rows" | "offset">): HashIds {
  return ({ ids, offsets, isUnsigned }) => {
    const halves = new Int32Array(ids.buffer, ids.byteOffset, 2 * ids.length);
    const found = new Int32Array(offsets.at(-1) ?? 0);
    if (isUnsigned === true && offset < 0) return found.fill(textWay);
    for (let at = 0; at < found.length; at++) {
      const [low, high] = [halves[2 * at] ?? 0, halves[2 * at + 1] ?? 0];
      const id = low - offset;
      found[at] = high === low >> 31 && id >= 0 && id < rows ? id : textWay;
    }
    return found;
  };
}

/** Computes the rows of a dictionary's ids once, for columns that hold codes. */
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

/** The rows of texts. Each text of a dictionary is hashed once; unhashed ids take the text path. */
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

/** The table that ids are hashed to. Its index is the `seed`. */
export interface HashedTable {
  readonly seed: number;
  readonly rows: number;
}

/** Computes (N), the row of each entry of a column. */
export type HashIds = (column: IdColumn) => Int32Array;

/** The fastest available hasher: the addon's if it is built, otherwise `hasherOf`. */
export function idHasher(table: HashedTable, addon: Addon | undefined = loadAddon()): HashIds {
  if (addon === undefined) return hasherOf(table);
  return ({ ids, offsets, isUnsigned = false }) => {
    const found = new Int32Array(offsets.at(-1) ?? 0);
    // The addon checks array types only: a wrong length would make it read memory outside them.
    assert(ids.length >= found.length, "an id for each entry");
    addon.hashIds(found, ids, isUnsigned, table.seed, table.rows);
    return found;
  };
}

/** Slots for cached ids: a power of two. */
const knownMax = 4096;

/**
 * The reference hasher, in TypeScript, which defines the rows. It caches the rows of recent ids,
 * because popular ids recur often.
 */
export function hasherOf({ seed, rows }: HashedTable): HashIds {
  // Per slot: low half, high half, row, whether the id is signed. Row 0 marks a free slot.
  const known = new Int32Array(4 * knownMax);
  return (column) => {
    const { ids, offsets, isUnsigned } = column;
    const sign = isUnsigned === true ? 0 : 1;
    const halves = new Int32Array(ids.buffer, ids.byteOffset, 2 * ids.length);
    const found = new Int32Array(offsets.at(-1) ?? 0);
    for (let at = 0; at < found.length; at++) {
      const [low, high] = [halves[2 * at] ?? 0, halves[2 * at + 1] ?? 0];
      const place = 4 * (mix32(low ^ Math.imul(high, 0x9e37_79b1)) & (knownMax - 1));
      let row = known[place + 2] ?? 0;
      const isKnown =
        known[place] === low && known[place + 1] === high && known[place + 3] === sign;
      if (row === 0 || !isKnown) {
        row = 1 + (murmurHash3(textOfId(column, at), seed) % (rows - 1));
        known.set([low, high, row, sign], place);
      }
      found[at] = row;
    }
    return found;
  };
}
