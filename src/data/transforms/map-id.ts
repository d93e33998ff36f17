// The op mapId: maps texts or ids to ids by a vocabulary.

import type { IdColumn, TextColumn } from "../columnar/column.ts";
import { IdTable } from "./id-table.ts";
import type { Op, TransformOf } from "./op.ts";
import {
  asIds,
  asTexts,
  type ColumnType,
  halvesOf,
  IdBuilder,
  type TransformColumn,
} from "./values.ts";
import type { Vocabulary } from "./vocabulary.ts";

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
