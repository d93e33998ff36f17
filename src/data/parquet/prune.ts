// Which row groups cannot have a row that is wanted, by the least and greatest value that writers
// put into the footer. What the footer does not say, or says in a way that may be rounded, is read.

import type { CellValue, RowTest } from "../columnar/row-filter.ts";
import type { Group } from "./footer.ts";
import type { ColumnShape, Leaf } from "./shapes.ts";

/** Whether a row group may have a row that all tests want. */
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

/** Seconds by which a time may lie beyond its statistics, which have milliseconds. */
const roundingSeconds = 1e-3;

function rangeOf(group: Group, leaf: Leaf): [CellValue, CellValue] | undefined {
  const { statistics } = group.chunks.get(leaf.path) ?? {};
  // The older fields compare bytes with a sign, whatever the type.
  const isSigned = leaf.kind === "integer" && !leaf.isUnsigned;
  const least = statistics?.min_value ?? (isSigned ? statistics?.min : undefined);
  const most = statistics?.max_value ?? (isSigned ? statistics?.max : undefined);
  if (leaf.kind === "moment") {
    if (!(least instanceof Date && most instanceof Date)) return undefined;
    const [first, last] = [least.getTime() / 1000, most.getTime() / 1000];
    return [
      { kind: "time", value: first - roundingSeconds },
      { kind: "time", value: last + roundingSeconds },
    ];
  }
  const isExact = leaf.kind === "integer" || (leaf.kind === "fraction" && leaf.divisor === 1);
  const [first, last] = [numberOf(least), numberOf(most)];
  if (!isExact || Number.isNaN(first) || Number.isNaN(last)) return undefined;
  return [
    { kind: "number", value: first },
    { kind: "number", value: last },
  ];
}

function numberOf(value: unknown): number {
  return typeof value === "number" || typeof value === "bigint" ? Number(value) : Number.NaN;
}
