// Element-wise transforms of numbers, in columns and in lists, and transforms from numbers to ids
// or one-hot vectors. A missing number (NaN) stays missing, except with `fill`.
//
// Results are bitwise the same on every machine: V8's Math.log and Math.expm1 are its own port of
// fdlibm, not the C library's functions. t^l is computed by expm1 and log, because Math.pow has no
// such guarantee.

import { type Op, type Run, sameForm } from "./op.ts";
import {
  asIds,
  asNumbers,
  type ColumnType,
  halvesOf,
  idsType,
  numbersType,
  oneEach,
  type TransformColumn,
} from "./values.ts";
import { wholeColumns } from "./whole-columns.ts";

const numbersOrLists = [["numbers", "lists"]] as const;

function ofEach(compute: (value: number) => number): Run {
  return ([column]) => [mapped(column, compute)];
}

function mapped(
  column: TransformColumn | undefined,
  compute: (value: number) => number,
): TransformColumn {
  if (column?.form !== "numbers" && column?.form !== "lists") {
    throw new TypeError("a column of numbers, or of lists of them");
  }
  const { values } = column;
  const out = new Float64Array(values.length);
  for (let i = 0; i < out.length; i++) out[i] = compute(values[i] as number);
  return { ...column, values: out };
}

function numberOp<Name extends "log" | "boxCox" | "logit" | "scale">(
  compile: Op<Name>["compile"],
): Op<Name> {
  return { takes: numbersOrLists, makes: sameForm, compile };
}

/** ln(x + plus). TorchArrow's log has plus 0, DLRM's preprocessing of Criteo 1. */
export const log = numberOp<"log">(({ plus }) => ofEach((x) => Math.log(x + plus)));

/** With t = max(x + lambda2, 1e-6): ln t if lambda1 is 0, otherwise (t^lambda1 - 1) / lambda1. */
export const boxCox = numberOp<"boxCox">(({ lambda1, lambda2 }) =>
  ofEach((x) => {
    const logarithm = Math.log(Math.max(x + lambda2, 1e-6));
    return lambda1 === 0 ? logarithm : Math.expm1(lambda1 * logarithm) / lambda1;
  }),
);

/** ln(p / (1 - p)) of p within [eps, 1 - eps]. */
export const logit = numberOp<"logit">(({ eps }) =>
  ofEach((x) => {
    const p = Math.min(Math.max(x, eps), 1 - eps);
    return Math.log(p / (1 - p));
  }),
);

/**
 * (x - minus) / over. With minimum and range it scales to 0..1, with mean and standard deviation it
 * gives a z-score.
 */
export const scale = numberOp<"scale">(({ minus, over }) => ofEach((x) => (x - minus) / over));

/** min(max(x, min), max), for numbers and ids. */
export const clamp: Op<"clamp"> = {
  takes: [["numbers", "lists", "ids"]],
  makes: sameForm,
  compile({ min, max }) {
    const limits = [BigInt(Math.ceil(min)), BigInt(Math.floor(max))] as const;
    return ([column]) => {
      if (column?.form === "ids") return [clampIds(column, ...limits)];
      return [mapped(column, (x) => Math.min(Math.max(x, min), max))];
    };
  },
};

function clampIds(column: TransformColumn, min: bigint, max: bigint): TransformColumn {
  const { ids, ...rest } = asIds(column);
  const out = new BigInt64Array(ids);
  const halves = halvesOf({ ids: out });
  const [least, most] = [halvesOfNumber(min), halvesOfNumber(max)];
  for (let i = 0; i < halves.length; i += 2) {
    const [low, high] = [halves[i] as number, halves[i + 1] as number];
    const limit = isLess(low, high, least) ? least : isLess(most.low, most.high, { low, high });
    if (limit === false) continue;
    const { low: newLow, high: newHigh } = limit === true ? most : limit;
    halves[i] = newLow;
    halves[i + 1] = newHigh;
  }
  return { ...rest, ids: out };
}

interface Halves {
  readonly low: number;
  readonly high: number;
}

function halvesOfNumber(value: bigint): Halves {
  return { low: Number(BigInt.asIntN(32, value)), high: Number(BigInt.asIntN(32, value >> 32n)) };
}

function isLess(low: number, high: number, other: Halves): boolean {
  return high < other.high || (high === other.high && low >>> 0 < other.low >>> 0);
}

/** Replaces a missing number by `value`, and an empty list of ids by a list of that one id. */
export const fill: Op<"fill"> = {
  takes: [["numbers", "ids"]],
  makes: ([first]): ColumnType => first ?? { form: "numbers", isWeighted: false },
  compile({ value }) {
    return ([column], { rows }) => {
      if (column?.form === "ids") return [filledIds(column, value, rows)];
      return [mapped(column, (x) => (Number.isNaN(x) ? value : x))];
    };
  },
};

function filledIds(column: TransformColumn, value: number, rows: number): TransformColumn {
  const { offsets, ids, weights } = asIds(column);
  let empty = 0;
  for (let row = 0; row < rows; row++) if (offsets[row] === offsets[row + 1]) empty++;
  if (empty === 0) return column;
  const out = {
    offsets: new Int32Array(rows + 1),
    ids: new BigInt64Array(ids.length + empty),
    ...(weights && { weights: new Float32Array(ids.length + empty) }),
  };
  let at = 0;
  for (let row = 0; row < rows; row++) {
    const [first = 0, end = 0] = [offsets[row], offsets[row + 1]];
    if (first === end) {
      out.ids[at] = BigInt(value);
      if (out.weights !== undefined) out.weights[at] = 1;
      at++;
    } else {
      out.ids.set(ids.subarray(first, end), at);
      if (weights !== undefined) out.weights?.set(weights.subarray(first, end), at);
      at += end - first;
    }
    out.offsets[row + 1] = at;
  }
  return { form: "ids", ...out };
}

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
