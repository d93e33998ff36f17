// The statistics of a bench's row: medians, quantiles and ratios.

import test from "ava";
import { quantileOf, quantiles, rowOf } from "../../bench/row.ts";

test("the median of two rounds is their mean, not the better round", (t) => {
  t.is(quantiles([100, 300]).median, 200);
  t.is(quantiles([300, 100]).median, 200);
  const row = rowOf({ name: "a", unit: "s", limitIs: "b" }, [100, 300], [50, 150]);
  t.is(row.figure, 200);
  t.is(row.limit, 100);
  t.is(row.ratio, 2);
});

test("the median of an odd count is the middle, of an even count the mean of the two", (t) => {
  t.is(quantiles([5, 1, 9]).median, 5);
  t.is(quantiles([7, 1, 5, 1000]).median, 6);
  t.is(quantiles([4]).median, 4);
});

test("quantiles are interpolated between values, and the spread is from 10 % to 90 %", (t) => {
  const eleven = Array.from({ length: 11 }, (_, i) => 10 * i);
  t.deepEqual(quantiles(eleven).spread, [10, 90]);
  t.is(quantileOf([0, 10])(0.25), 2.5);
  t.is(quantileOf([3, 8])(0), 3);
  t.is(quantileOf([3, 8])(1), 8);
});

test("a row has a ratio and its target only if the limit could be measured", (t) => {
  const named = { name: "a", unit: "s", limitIs: "b", target: [0.7, 1] } as const;
  t.deepEqual(rowOf(named, [3], [4]).target, [0.7, 1]);
  t.deepEqual(rowOf(named, [3], [0]), {
    name: "a",
    figure: 3,
    unit: "s",
    spread: [3, 3],
    limitIs: "b",
  });
});
