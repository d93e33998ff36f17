// Determines from the footer of a Parquet file that every row is a sample, because no label, number
// or id can make the row bad, and how many ids the samples have at most. If the footer does not
// suffice (no statistics, lists that may be too long, text as a label), the rows must be read.

import type { CategoricalField, DenseField } from "../columnar/named-columns.ts";
import { bagIdsMax } from "../sample.ts";
import type { Chunk, Group } from "./footer.ts";
import type { ParquetFile } from "./open-columns.ts";
import type { ColumnShape } from "./shapes.ts";

/** Ids of a feature in a row group. */
export interface ProvenIds {
  /** Number of ids of all rows: exact, or an upper bound. */
  readonly sum: number;
  readonly isExact: boolean;
  /** Upper bound of the ids of a row. */
  readonly most: number;
}

/** The samples of a row group: one for each row. */
export interface ProvenGroup {
  readonly rows: number;
  /** By feature. */
  readonly ids: readonly ProvenIds[];
  /** Least and greatest value of the first label. */
  readonly label: readonly [number, number];
}

/** The samples of each row group of a file; undefined if the footer does not prove them. */
export function provenRows({
  footer,
  wanted,
  columns,
  header,
  partitions,
  tests,
}: ParquetFile): readonly ProvenGroup[] | undefined {
  const { labels, numeric, dense, categorical, weight, group: grouped, key, sources } = columns;
  if (tests.length > 0 || [weight, grouped, key, sources].some((one) => one !== undefined)) {
    return undefined;
  }
  const shapes = new Map(wanted.map(({ shape }) => [shape.name, shape]));
  const nameOf = (field: number) => header[field] ?? "";
  const proven: ProvenGroup[] = [];
  for (const group of footer.groups) {
    const ranges = labels.map((field, i) => {
      return labelRange(group, shapes.get(nameOf(field)), numeric?.[i] === true);
    });
    const areNumbers = dense.every((field) => {
      return isNumber(group, shapes.get(nameOf(field.field)), field);
    });
    const ids = categorical.map((field) => {
      const name = nameOf(field.field);
      return partitions.has(name)
        ? partitionIds(group, field)
        : idsIn(group, shapes.get(name), field);
    });
    const [label] = ranges;
    const isProven = ![...ranges, ...ids].includes(undefined);
    if (!isProven || !areNumbers || label === undefined) return undefined;
    proven.push({ rows: group.rows, ids: ids.filter((one) => one !== undefined), label });
  }
  return proven;
}

/** The column chunk of a shape's leaf in a row group. */
function chunkOf(group: Group, shape: ColumnShape | undefined): Chunk | undefined {
  return shape && group.chunks.get(shape.leaf.path);
}

/** Least and greatest value of a label; undefined if the label may make a row bad. */
function labelRange(
  group: Group,
  shape: ColumnShape | undefined,
  isNumeric: boolean,
): readonly [number, number] | undefined {
  const chunk = chunkOf(group, shape);
  const kind = shape?.leaf.kind;
  if (kind !== "integer" && kind !== "boolean") return undefined;
  const range = rangeIn(chunk);
  if (shape?.list !== "none" || range === undefined || nullsIn(chunk) !== 0) return undefined;
  const [least, most] = range;
  return isNumeric || (least >= -1 && most <= 1) ? range : undefined;
}

/** Whether every value of a dense column is a number or may be missing. */
function isNumber(group: Group, shape: ColumnShape | undefined, { missing }: DenseField): boolean {
  const chunk = chunkOf(group, shape);
  if (shape?.list !== "none" || missing === "reject" || missing === "mean") return false;
  const { kind, isDecimal } = shape.leaf;
  if (kind === "integer" || kind === "boolean") return true;
  if (kind !== "fraction" || isDecimal) return false;
  if (chunk !== undefined && nullsIn(chunk) === chunk.values) return true;
  // Writers leave the range out if a value is NaN.
  return rangeIn(chunk)?.every((one) => Number.isFinite(Math.fround(one))) === true;
}

/** The ids of a column that is a partition key: all rows have the same text. */
function partitionIds({ rows }: Group, field: CategoricalField): ProvenIds | undefined {
  const { ids, isWide, missing, separator, weightSeparator } = field;
  const isText = ids === "hash" && !isWide && missing === "own";
  if (!isText || separator !== undefined || weightSeparator !== undefined) return undefined;
  return { sum: rows, isExact: true, most: 1 };
}

/** The ids of a column; undefined if an id may make a row bad. */
function idsIn(
  group: Group,
  shape: ColumnShape | undefined,
  field: CategoricalField,
): ProvenIds | undefined {
  const chunk = chunkOf(group, shape);
  if (shape === undefined || chunk === undefined || field.missing === "reject") return undefined;
  if (field.separator !== undefined || field.weightSeparator !== undefined) return undefined;
  if (shape.list === "weighted" || !areIds(shape, chunk, field)) return undefined;
  const { rows } = group;
  if (shape.list === "none") {
    if (field.missing === "own") return { sum: rows, isExact: true, most: 1 };
    const nulls = shape.leaf.kind === "text" ? undefined : nullsIn(chunk);
    return { sum: rows - (nulls ?? 0), isExact: nulls !== undefined, most: 1 };
  }
  // Each row has at least one entry, which may stand for an empty or missing list.
  const most = chunk.values - rows + 1;
  return most > bagIdsMax ? undefined : { sum: chunk.values, isExact: false, most };
}

/** Whether every value of a column is an id of its table. */
function areIds(
  { leaf }: ColumnShape,
  chunk: Chunk,
  { ids, isWide, offset, rows, beyond }: CategoricalField,
): boolean {
  if (ids === "hash") return !isWide && (leaf.kind === "integer" || leaf.kind === "text");
  if (leaf.kind !== "integer") return false;
  if (isWide) return offset === 0 && !leaf.isUnsigned;
  if (nullsIn(chunk) === chunk.values) return true;
  const [least, most] = rangeIn(chunk) ?? [Number.NaN, Number.NaN];
  // Ids beyond the rows are allowed, but must have at most 15 digits.
  if (beyond !== "reject") return least > -1e15 && most < 1e15;
  return least - offset >= 0 && most - offset < rows;
}

function nullsIn(chunk: Chunk | undefined): number | undefined {
  const nulls = chunk?.statistics?.null_count;
  return nulls === undefined ? undefined : Number(nulls);
}

/** Least and greatest value of a chunk. */
function rangeIn(chunk: Chunk | undefined): [number, number] | undefined {
  const { min_value: least, max_value: most } = chunk?.statistics ?? {};
  if (least === undefined || most === undefined) return undefined;
  if (typeof least === "object" || typeof most === "object") return undefined;
  const range: [number, number] = [Number(least), Number(most)];
  return range.some(Number.isNaN) ? undefined : range;
}
