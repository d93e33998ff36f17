// Row group pruning: skips row groups that cannot contain a wanted row, by the minimum and maximum
// in the footer. A row group without statistics, or with rounded ones, is read.

import type { Cell } from "../columnar/exact-values.ts";
import type { RowTest } from "../columnar/row-filter.ts";
import type { Group } from "./footer.ts";
import type { ColumnShape, Leaf } from "./shapes.ts";

/** Whether a row group may contain a row that satisfies all tests. */
export function mayHaveWanted(
  group: Group,
  tests: readonly RowTest[],
  shapes: ReadonlyMap<string, ColumnShape>,
): boolean {
  return tests.every(({ column, mayBeWanted }) => {
    const leaf = shapes.get(column)?.leaf;
    const range = leaf === undefined ? undefined : rangeOf(group, leaf);
    return range === undefined || mayBeWanted(...range);
  });
}

/** Milliseconds by which a time may exceed its statistics, which are rounded to milliseconds. */
const roundingMs = 1n;

function rangeOf(group: Group, leaf: Leaf): [Cell, Cell] | undefined {
  const { statistics } = group.chunks.get(leaf.path) ?? {};
  const { type } = leaf.compared;
  // The deprecated fields `min` and `max` are in signed byte order, whatever the type.
  const isSigned = leaf.kind === "integer" && !leaf.isUnsigned;
  const least = statistics?.min_value ?? (isSigned ? statistics?.min : undefined);
  const most = statistics?.max_value ?? (isSigned ? statistics?.max : undefined);
  if (leaf.kind === "moment" && type.kind === "units") {
    if (!(isDate(least) && isDate(most))) return undefined;
    const unitsOf = (date: Date, rounding: bigint) => {
      const ms = BigInt(date.getTime()) + rounding;
      return (ms * 10n ** BigInt(type.scale)) / (1000n * type.each) + rounding;
    };
    return [unitsOf(least, -roundingMs), unitsOf(most, roundingMs)];
  }
  // The footer decoder rounds decimals.
  if (type.kind !== "integer" && type.kind !== "float") return undefined;
  return isNumber(least) && isNumber(most) ? [least, most] : undefined;
}

/** Whether it is a time that `Date` can hold; databases write `infinity` as the largest integer. */
function isDate(value: unknown): value is Date {
  return value instanceof Date && !Number.isNaN(value.getTime());
}

function isNumber(value: unknown): value is number | bigint {
  return typeof value === "bigint" || (typeof value === "number" && !Number.isNaN(value));
}
