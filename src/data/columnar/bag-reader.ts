// Appends ids of columns to bags: integers and texts, hashed or as they are, with 32 or 64 bits.
// Texts that were hashed are remembered, as a dictionary has each of them once.

import { murmurHash3 } from "../murmur-hash.ts";
import type { Sample } from "../sample.ts";
import type { Fault } from "../text/faults.ts";
import { decodeId } from "../text/line-decoder.ts";
import type { Column, IdColumn, TextColumn } from "./column.ts";
import { idHasher, textOfId } from "./hashed-ids.ts";
import type { CategoricalField } from "./named-columns.ts";

/** Appends entry `at` of a column to a feature's bag. Returns its fault, if it has one. */
export type FillEntry = (sample: Sample, at: number, weight: number) => Fault | undefined;

/** What fills the entries of a column. A batch's column is taken once. */
export type BagReader = (column: Exclude<Column, { form: "numbers" }>) => FillEntry;

/** The reader of a feature's entries. */
export function bagReader(field: CategoricalField, feature: number): BagReader {
  const ofIds = field.ids === "hash" ? hashedIds(field, feature) : plainIds(field, feature);
  const ofTexts = textReader(field, feature);
  return (column) => (column.form === "ids" ? ofIds(column) : ofTexts(column));
}

function plainIds(field: CategoricalField, feature: number): (column: IdColumn) => FillEntry {
  const { isWide, rows, offset } = field;
  return (column) => {
    const { ids, isUnsigned } = column;
    const halves = new Int32Array(ids.buffer, ids.byteOffset, 2 * ids.length);
    return (sample, at, weight) => {
      const [low, high] = [halves[2 * at] ?? 0, halves[2 * at + 1] ?? 0];
      if (isWide) {
        const mayPush = offset === 0 && (high >= 0 || isUnsigned !== true);
        if (mayPush && sample.push(feature, low, weight, high)) return undefined;
      } else if (high === low >> 31) {
        const id = low - offset;
        if (id >= 0 && id < rows && sample.push(feature, id, weight)) return undefined;
      }
      return decodeId(sample, feature, textOfId(column, at), weight, field);
    };
  };
}

/** The row of an id is the hash of its decimals. */
function hashedIds(field: CategoricalField, feature: number): (column: IdColumn) => FillEntry {
  const rowsOf = idHasher(field);
  return (column) => {
    const rows = rowsOf(column);
    return (sample, at, weight) => {
      if (sample.push(feature, rows[at] ?? 0, weight)) return undefined;
      return decodeId(sample, feature, textOfId(column, at), weight, field);
    };
  };
}

function textReader(field: CategoricalField, feature: number): (column: TextColumn) => FillEntry {
  const { ids, rows, seed } = field;
  const byText = ({ dictionary, codes }: TextColumn): FillEntry => {
    return (sample, at, weight) => {
      const text = dictionary[codes[at] ?? 0] ?? "";
      return text === "" ? undefined : decodeId(sample, feature, text, weight, field);
    };
  };
  if (ids !== "hash") return byText;
  let known: readonly string[] | undefined;
  let found = new Int32Array(0); // 0: not hashed yet.
  return (column) => {
    const { dictionary, codes } = column;
    const bySlowWay = byText(column);
    return (sample, at, weight) => {
      const code = codes[at] ?? 0;
      if (known !== dictionary || code >= found.length) {
        known = dictionary;
        found = new Int32Array(2 * dictionary.length);
      }
      let row = found[code] ?? 0;
      if (row === 0) {
        const text = dictionary[code] ?? "";
        if (text === "") return undefined;
        row = 1 + (murmurHash3(text, seed) % (rows - 1));
        found[code] = row;
      }
      return sample.push(feature, row, weight) ? undefined : bySlowWay(sample, at, weight);
    };
  };
}
