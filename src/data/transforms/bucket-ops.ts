// Transforms from numbers to ids or one-hot vectors.

import type { Op } from "./op.ts";
import {
  asNumbers,
  type ColumnType,
  idsType,
  numbersType,
  oneEach,
  type TransformColumn,
} from "./values.ts";
import { wholeColumns } from "./whole-columns.ts";

/** The bucket of each number among `borders`, as an id; a list of numbers becomes a list of ids. */
export const bucketize: Op<"bucketize"> = {
  takes: [["numbers", "lists"]],
  makes: (): ColumnType => idsType,
  compile({ borders: written }) {
    const borders = Float64Array.from(written);
    const columns = wholeColumns();
    return ([column], { rows }) => {
      const { values } = numbersOf(column);
      const ids = new BigInt64Array(values.length);
      columns.bucketize(ids, values, borders);
      const offsets = column?.form === "lists" ? column.offsets : oneEach(rows);
      return [{ form: "ids", offsets, ids }];
    };
  },
};

function numbersOf(column: TransformColumn | undefined): { readonly values: Float64Array } {
  return column?.form === "lists" ? column : asNumbers(column);
}

/**
 * A one-hot vector with one column per element: it marks which of `buckets` equal parts of [low,
 * high) contains the number. Numbers outside and missing numbers are in the first part.
 */
export const onehot: Op<"onehot"> = {
  takes: [["numbers"]],
  makes: (): ColumnType => numbersType,
  compile({ low, high, buckets }) {
    const width = (high - low) / buckets;
    return ([column], { rows }) => {
      const { values } = asNumbers(column);
      const out = Array.from({ length: buckets }, () => new Float64Array(rows));
      for (let row = 0; row < rows; row++) {
        const x = values[row] as number;
        const bucket = x >= low && x < high ? Math.floor((x - low) / width) : 0;
        const element = out[Math.min(bucket, buckets - 1)] as Float64Array;
        element[row] = 1;
      }
      return out.map((one) => ({ form: "numbers", values: one }));
    };
  },
};

/** The local hour, 0..23, of seconds since 1970; an empty list for a missing time. */
export const getLocalHour: Op<"getLocalHour"> = {
  takes: [["numbers"]],
  makes: (): ColumnType => idsType,
  compile({ offsetSeconds }) {
    return ([column], { rows }) => {
      const { values } = asNumbers(column);
      const offsets = new Int32Array(rows + 1);
      const halves = new Int32Array(2 * rows);
      let count = 0;
      for (let row = 0; row < rows; row++) {
        const hour = Math.floor(((values[row] as number) + offsetSeconds) / 3600);
        if (Number.isFinite(hour)) halves[2 * count++] = hour - 24 * Math.floor(hour / 24);
        offsets[row + 1] = count;
      }
      return [{ form: "ids", offsets, ids: new BigInt64Array(halves.buffer, 0, count) }];
    };
  },
};
