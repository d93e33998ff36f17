// Appends ids of columns to bags: integers and texts, hashed or as they are, with 32 or 64 bits.
// Ids and texts that were hashed are remembered, as the popular ones come again and again.

import { mix32, murmurHash3 } from "../murmur-hash.ts";
import type { Sample } from "../sample.ts";
import type { Fault } from "../text/faults.ts";
import { decodeId } from "../text/line-decoder.ts";
import type { Column, IdColumn, TextColumn } from "./column.ts";
import type { CategoricalField } from "./named-columns.ts";

/** Appends entry `at` of a column to a feature's bag. Returns its fault, if it has one. */
export type FillBag = (
  sample: Sample,
  column: Exclude<Column, { form: "numbers" }>,
  at: number,
  weight: number,
) => Fault | undefined;

/** Integers whose hashes are remembered, of one feature: a power of two. */
const knownMax = 4096;

/** The reader of a feature's entries. */
export function bagReader(field: CategoricalField, feature: number): FillBag {
  const ofIds = idReader(field, feature);
  const ofTexts = textReader(field, feature);
  return (sample, column, at, weight) =>
    column.form === "ids" ? ofIds(sample, column, at, weight) : ofTexts(sample, column, at, weight);
}

type Read<Of> = (sample: Sample, column: Of, at: number, weight: number) => Fault | undefined;

function idReader(field: CategoricalField, feature: number): Read<IdColumn> {
  const { ids, isWide, rows, offset } = field;
  const bySlowWay: Read<IdColumn> = (sample, column, at, weight) => {
    return decodeId(sample, feature, textOfId(column, at), weight, field);
  };
  if (ids === "hash") return hashedIds(field, feature, bySlowWay);
  const halvesOf = halvesReader();
  return (sample, column, at, weight) => {
    const halves = halvesOf(column);
    const [low, high] = [halves[2 * at] ?? 0, halves[2 * at + 1] ?? 0];
    if (isWide) {
      const mayPush = offset === 0 && (high >= 0 || column.isUnsigned !== true);
      if (mayPush && sample.push(feature, low, weight, high)) return undefined;
    } else if (high === low >> 31) {
      const id = low - offset;
      if (id >= 0 && id < rows && sample.push(feature, id, weight)) return undefined;
    }
    return bySlowWay(sample, column, at, weight);
  };
}

/** The row of an id is the hash of its decimals. */
function hashedIds(
  { rows, seed }: CategoricalField,
  feature: number,
  bySlowWay: Read<IdColumn>,
): Read<IdColumn> {
  const halvesOf = halvesReader();
  // Low half, high half, row, nothing: one line of a cache. Row 0: nothing is remembered.
  const known = new Int32Array(4 * knownMax);
  return (sample, column, at, weight) => {
    const halves = halvesOf(column);
    const [low, high] = [halves[2 * at] ?? 0, halves[2 * at + 1] ?? 0];
    // The text of an id without a sign is another one only where the highest bit is set.
    if (high < 0 && column.isUnsigned === true) return bySlowWay(sample, column, at, weight);
    const place = 4 * (mix32(low ^ Math.imul(high, 0x9e37_79b1)) & (knownMax - 1));
    let row = known[place + 2] ?? 0;
    if (row === 0 || known[place] !== low || known[place + 1] !== high) {
      row = 1 + (murmurHash3(textOfId(column, at), seed) % (rows - 1));
      known[place] = low;
      known[place + 1] = high;
      known[place + 2] = row;
    }
    if (sample.push(feature, row, weight)) return undefined;
    return bySlowWay(sample, column, at, weight);
  };
}

function textReader(field: CategoricalField, feature: number): Read<TextColumn> {
  const { ids, rows, seed } = field;
  const byText: Read<TextColumn> = (sample, column, at, weight) => {
    const text = column.dictionary[column.codes[at] ?? 0] ?? "";
    return text === "" ? undefined : decodeId(sample, feature, text, weight, field);
  };
  if (ids !== "hash") return byText;
  let dictionary: readonly string[] | undefined;
  let found = new Int32Array(0); // 0: not hashed yet.
  return (sample, column, at, weight) => {
    const code = column.codes[at] ?? 0;
    if (dictionary !== column.dictionary || code >= found.length) {
      dictionary = column.dictionary;
      found = new Int32Array(2 * dictionary.length);
    }
    let row = found[code] ?? 0;
    if (row === 0) {
      const text = column.dictionary[code] ?? "";
      if (text === "") return undefined;
      row = 1 + (murmurHash3(text, seed) % (rows - 1));
      found[code] = row;
    }
    return sample.push(feature, row, weight) ? undefined : byText(sample, column, at, weight);
  };
}

/** Ids as pairs of halves, low first; those of a batch are looked at once. */
function halvesReader(): (column: IdColumn) => Int32Array {
  let known: BigInt64Array | undefined;
  let halves: Int32Array = new Int32Array(0);
  return ({ ids }) => {
    if (ids !== known) {
      known = ids;
      halves = new Int32Array(ids.buffer, ids.byteOffset, 2 * ids.length);
    }
    return halves;
  };
}

/** The decimals of an id. */
export function textOfId({ ids, isUnsigned }: IdColumn, at: number): string {
  const id = ids[at] ?? 0n;
  return String(isUnsigned === true ? BigInt.asUintN(64, id) : id);
}
