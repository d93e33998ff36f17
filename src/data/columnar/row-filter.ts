// Which rows are wanted: predicates on columns. What has no value is never wanted.
//
// Values are compared as numbers where both are numbers, as times where both are dates, and else as
// text, byte by byte: `03` equals 3, and `2026-11-01` lies before `2026-11-01T12:00`.

import { type Moment, momentOf } from "../text/split-keys.ts";
import type { Column, RowBatch } from "./column.ts";
import { textOfId } from "./hashed-ids.ts";

/** A value as a job writes it. */
export type WhereValue = string | number | boolean;

/** A predicate on a column: all that it says must hold. */
export interface Predicate {
  readonly column: string;
  readonly equals?: WhereValue | undefined;
  readonly in?: readonly WhereValue[] | undefined;
  /** The first value that is wanted. */
  readonly from?: WhereValue | undefined;
  /** The first value behind it that is not. */
  readonly until?: WhereValue | undefined;
}

/** A value that rows are compared with, read once. */
interface Bound {
  readonly text: string;
  readonly moment: Moment | undefined;
}

/** A predicate, read once. */
export interface RowTest {
  readonly column: string;
  /** Whether a value is wanted: a number, seconds of a time, or text of one byte per character. */
  readonly isWanted: (value: CellValue) => boolean;
  /** Whether any value from `least` to `most` may be wanted. */
  readonly mayBeWanted: (least: CellValue, most: CellValue) => boolean;
}

/** The value of a cell. */
export type CellValue =
  | { readonly kind: "number"; readonly value: number }
  /** Seconds since 1970. */
  | { readonly kind: "time"; readonly value: number }
  /** One character for each byte. */
  | { readonly kind: "text"; readonly value: string };

/** The test of a predicate. */
export function rowTest({ column, equals, in: some, from, until }: Predicate): RowTest {
  const one = equals === undefined ? undefined : [boundOf(equals)];
  const any = some?.map(boundOf);
  const sets = [one, any].filter((set) => set !== undefined);
  const [first, end] = [from, until].map((value) => {
    return value === undefined ? undefined : boundOf(value);
  });
  return {
    column,
    isWanted: (value) =>
      sets.every((set) => set.some((bound) => compare(value, bound) === 0)) &&
      (first === undefined || compare(value, first) >= 0) &&
      (end === undefined || compare(value, end) < 0),
    mayBeWanted: (least, most) =>
      sets.every((set) =>
        set.some((bound) => {
          return !(compare(least, bound) > 0) && !(compare(most, bound) < 0);
        }),
      ) &&
      (first === undefined || !(compare(most, first) < 0)) &&
      (end === undefined || !(compare(least, end) >= 0)),
  };
}

function boundOf(value: WhereValue): Bound {
  const text = Buffer.from(String(value), "utf8").toString("latin1");
  return { text, moment: momentOf(text) };
}

/** Below 0, 0, or above 0; NaN: they cannot be compared. */
function compare(cell: CellValue, { text, moment }: Bound): number {
  switch (cell.kind) {
    case "number":
      return moment?.form === "number"
        ? cell.value - moment.value
        : booleanAgainst(cell.value, text);
    case "time": {
      if (moment === undefined) return Number.NaN;
      const seconds = moment.form === "date" ? moment.value / 1000 : moment.value;
      return cell.value - seconds;
    }
    case "text": {
      const own = moment === undefined ? undefined : momentOf(cell.value);
      if (own !== undefined && own.form === moment?.form) return own.value - moment.value;
      return cell.value < text ? -1 : cell.value > text ? 1 : 0;
    }
    default:
      return cell satisfies never;
  }
}

/** A column of booleans has 0 and 1. */
function booleanAgainst(value: number, text: string): number {
  const bound = text === "true" ? 1 : text === "false" ? 0 : Number.NaN;
  return value - bound;
}

/** Whether a row of a batch is wanted. */
export function rowFilter(tests: readonly RowTest[], batch: RowBatch): (row: number) => boolean {
  const columns = tests.map(({ column: name, isWanted }) => {
    const column = batch.columns.get(name);
    if (column === undefined) throw new TypeError(`a batch lacks the column ${name}`);
    return { column, isWanted };
  });
  return (row) => {
    for (const { column, isWanted } of columns) {
      const cell = cellAt(column, row);
      if (cell === undefined || !isWanted(cell)) return false;
    }
    return true;
  };
}

function cellAt(column: Column, row: number): CellValue | undefined {
  if (column.form === "numbers") {
    const value = column.values[row] ?? Number.NaN;
    if (Number.isNaN(value)) return undefined;
    return { kind: column.isTime === true ? "time" : "number", value };
  }
  const at = column.offsets[row] ?? 0;
  if (at === column.offsets[row + 1]) return undefined;
  if (column.form === "ids") return { kind: "text", value: textOfId(column, at) };
  return { kind: "text", value: column.dictionary[column.codes[at] ?? 0] ?? "" };
}
