// Element-wise transforms of lists of ids, among them texts and ids by a vocabulary. Weights stay
// with their ids.

import type { IdColumn, TextColumn } from "../columnar/column.ts";
import { murmurHash3 } from "../murmur-hash.ts";
import { hashCombine, Modulus, twangMix64, upperHalf } from "./hash64.ts";
import { IdTable } from "./id-table.ts";
import { type Op, sameForm, type TransformOf } from "./op.ts";
import {
  asIds,
  asTexts,
  type ColumnType,
  halvesOf,
  IdBuilder,
  type TransformColumn,
} from "./values.ts";
import type { Vocabulary } from "./vocabulary.ts";
import { hashArguments, setId, wholeColumns } from "./whole-columns.ts";

/** A salted hash in 0 .. max - 1. */
export const sigridHash: Op<"sigridHash"> = {
  takes: [["ids"]],
  makes: sameForm,
  compile(options) {
    const hash = hashArguments(options);
    const columns = wholeColumns();
    return ([column]) => {
      const ids = asIds(column);
      const out = new BigInt64Array(ids.ids.length);
      columns.sigridHash(out, ids.ids, hash);
      return [{ ...ids, ids: out, coded: undefined }];
    };
  },
};

/** ((x mod m) + m) mod m. */
export const positiveModulus: Op<"positiveModulus"> = {
  takes: [["ids"]],
  makes: sameForm,
  compile({ modulus }) {
    const by = new Modulus(modulus);
    return ([column]) => {
      const ids = asIds(column);
      const from = halvesOf(ids);
      const out = new BigInt64Array(ids.ids.length);
      const halves = halvesOf({ ids: out });
      for (let i = 0; i < out.length; i++) {
        setId(halves, i, by.of(from[2 * i] as number, from[2 * i + 1] as number));
      }
      return [{ ...ids, ids: out, coded: undefined }];
    };
  },
};

/** The first x entries of each list. */
export const firstX: Op<"firstX"> = {
  takes: [["ids", "texts", "lists"]],
  makes: sameForm,
  compile({ x }) {
    return ([column], { rows }) => {
      if (column === undefined || column.form === "numbers") throw new TypeError("lists");
      const offsets = new Int32Array(rows + 1);
      for (let row = 0; row < rows; row++) {
        const length = (column.offsets[row + 1] as number) - (column.offsets[row] as number);
        offsets[row + 1] = (offsets[row] as number) + Math.min(length, x);
      }
      return [picked(column, offsets)];
    };
  },
};

/** The prefix of each list whose length the new offsets give. */
function picked(
  column: Exclude<TransformColumn, { form: "numbers" }>,
  offsets: Int32Array,
): TransformColumn {
  const count = offsets.at(-1) ?? 0;
  const from = new Int32Array(count);
  for (let row = 0; row + 1 < offsets.length; row++) {
    const first = column.offsets[row] as number;
    const [begin, end] = [offsets[row] as number, offsets[row + 1] as number];
    for (let at = begin; at < end; at++) from[at] = first + at - begin;
  }
  if (column.form === "lists") {
    return {
      form: "lists",
      offsets,
      values: Float64Array.from(from, (i) => column.values[i] ?? 0),
    };
  }
  const weights = column.weights && Float32Array.from(from, (i) => column.weights?.[i] ?? 1);
  const rest = { offsets, present: column.present, ...(weights && { weights }) };
  if (column.form === "texts") {
    const { dictionary } = column;
    return { form: "texts", dictionary, codes: from.map((i) => column.codes[i] ?? 0), ...rest };
  }
  return { form: "ids", ids: BigInt64Array.from(from, (i) => column.ids[i] ?? 0n), ...rest };
}

/** Combines each id of a list with its position, from 0 on, into one id; never negative. */
export const enumerate: Op<"enumerate"> = {
  takes: [["ids"]],
  makes: sameForm,
  compile() {
    return ([column], { rows }) => {
      const ids = asIds(column);
      const from = halvesOf(ids);
      const out = new BigInt64Array(ids.ids.length);
      const halves = halvesOf({ ids: out });
      for (let row = 0; row < rows; row++) {
        const [first, end] = [ids.offsets[row] as number, ids.offsets[row + 1] as number];
        for (let i = first; i < end; i++) {
          const mixed = twangMix64(from[2 * i] as number, from[2 * i + 1] as number);
          halves[2 * i] = hashCombine(i - first, 0, mixed, upperHalf());
          halves[2 * i + 1] = upperHalf() & 0x7fff_ffff;
        }
      }
      return [{ ...ids, ids: out, coded: undefined }];
    };
  },
};

/** A 64-bit id of each text: two MurmurHash3 (x86, 32 bits) of its bytes; never negative. */
export const hashText: Op<"hashText"> = {
  takes: [["texts"]],
  makes: ([first]): ColumnType => ({ form: "ids", isWeighted: first?.isWeighted === true }),
  compile() {
    return ([column]) => {
      const { form: _, codes, dictionary, ...rest } = asTexts(column);
      const lows = dictionary.map((text) => murmurHash3(text, 0) | 0);
      const highs = dictionary.map((text) => murmurHash3(text, 1) & 0x7fff_ffff);
      const halves = new Int32Array(2 * codes.length);
      for (let i = 0; i < codes.length; i++) {
        halves[2 * i] = lows[codes[i] as number] as number;
        halves[2 * i + 1] = highs[codes[i] as number] as number;
      }
      return [{ form: "ids", ids: new BigInt64Array(halves.buffer), ...rest }];
    };
  },
};

/**
 * Maps a text to its line in the vocabulary, from 0 on, or an id to its value in the vocabulary's
 * pairs. An entry that is not in the vocabulary becomes `unknown`, or is left out without that
 * option.
 */
export const mapId: Op<"mapId"> = {
  takes: [["texts", "ids"]],
  makes: ([first]): ColumnType => ({ form: "ids", isWeighted: first?.isWeighted === true }),
  compile(options, vocabulary) {
    if (vocabulary === undefined) throw new TypeError("the vocabulary of a mapId");
    const lookup = vocabulary.form === "texts" ? lookupOf(vocabulary) : pairLookup(vocabulary);
    return ([column], { rows }) => [mapped(column, rows, options, lookup)];
  },
};

/** Looks up the entries of a column in the vocabulary. */
type Lookup = (column: TransformColumn | undefined) => {
  readonly column: IdColumn | TextColumn;
  /** (N): index in `values`; -1 for an unknown entry. */
  readonly places: Int32Array;
  /** Lower and upper half of each value, by index. */
  readonly values: Int32Array;
};

function mapped(
  from: TransformColumn | undefined,
  rows: number,
  { unknown }: TransformOf<"mapId">,
  lookup: Lookup,
): IdColumn {
  const { column, places, values } = lookup(from);
  const { offsets, weights } = column;
  const builder = new IdBuilder(rows, weights !== undefined);
  const [unknownLow, unknownHigh] = [unknown ?? 0, Math.floor((unknown ?? 0) / 0x1_0000_0000)];
  for (let row = 0; row < rows; row++) {
    for (let i = offsets[row] as number; i < (offsets[row + 1] as number); i++) {
      const place = places[i] as number;
      const weight = weights === undefined ? 1 : (weights[i] as number);
      if (place >= 0) {
        builder.push(values[2 * place] as number, values[2 * place + 1] as number, weight);
      } else if (unknown !== undefined) builder.push(unknownLow, unknownHigh, weight);
    }
    builder.endRow();
  }
  return builder.column();
}

function lookupOf({ places }: Extract<Vocabulary, { form: "texts" }>): Lookup {
  const values = new Int32Array(2 * places.size);
  for (let place = 0; place < places.size; place++) values[2 * place] = place;
  return (from) => {
    const column = asTexts(from);
    const ofDictionary = column.dictionary.map((text) => places.get(text) ?? -1);
    return { column, places: column.codes.map((code) => ofDictionary[code] ?? -1), values };
  };
}

function pairLookup({ keys, values }: Extract<Vocabulary, { form: "pairs" }>): Lookup {
  const table = new IdTable();
  const keyHalves = halvesOf({ ids: keys });
  for (let i = 0; i < keyHalves.length; i += 2) {
    table.add(keyHalves[i] as number, keyHalves[i + 1] as number);
  }
  return (from) => {
    const column = asIds(from);
    const halves = halvesOf(column);
    const places = new Int32Array(column.ids.length);
    for (let i = 0; i < places.length; i++) {
      places[i] = table.find(halves[2 * i] as number, halves[2 * i + 1] as number);
    }
    return { column, places, values: halvesOf({ ids: values }) };
  };
}
