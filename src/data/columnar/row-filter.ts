// Row filters: predicates on columns. A missing value matches no predicate.
//
// Cells and bounds are compared in the type of the column (exact-values.ts). Text is compared as
// numbers if both are numbers, as times if both are dates, otherwise byte by byte: `03` equals 3,
// and `2026-11-01` is before `2026-11-01T12:00`.

import type { Column, RowBatch } from "./column.ts";
import {
  type Cell,
  type ColumnType,
  type Compared,
  compareExact,
  comparePoint,
  type ExactMoment,
  exactOf,
  pointOf,
} from "./exact-values.ts";

/** A value of a predicate, as written in the job. */
export type WhereValue = string | number | boolean;

/** A predicate on a column: the conjunction of its conditions. */
export interface Predicate {
  readonly column: string;
  readonly equals?: WhereValue | undefined;
  readonly in?: readonly WhereValue[] | undefined;
  /** Inclusive lower bound. */
  readonly from?: WhereValue | undefined;
  /** Exclusive upper bound. */
  readonly until?: WhereValue | undefined;
}

/** A predicate, compiled for columns of one type. */
export interface RowTest {
  readonly column: string;
  readonly compared: Compared;
  /** Whether a value satisfies the predicate. */
  readonly isWanted: (cell: Cell) => boolean;
  /** Whether any value from `least` to `most` may satisfy the predicate. */
  readonly mayBeWanted: (least: Cell, most: Cell) => boolean;
}

/** Comparison as text, the type of partition keys. */
const text: Compared = { type: { kind: "text" } };

/** Name, in a batch, of the exact version of a column whose regular version is rounded. */
export function rawName(name: string): string {
  return `\0${name}`;
}

/** Compiles a predicate. `compared`: how the column's cells are compared. @default text */
export function rowTest(
  { column, equals, in: some, from, until }: Predicate,
  compared: Compared = text,
): RowTest {
  const order = orderOf(compared.type);
  const sets = [equals === undefined ? undefined : [equals], some]
    .filter((set) => set !== undefined)
    .map((set) => order.setOf(set.map(bytesOf)));
  const [first, end] = [from, until].map((value) => {
    return value === undefined ? undefined : order.compareWith(bytesOf(value));
  });
  return {
    column,
    compared,
    isWanted: (cell) =>
      sets.every(({ has }) => has(cell)) &&
      (first === undefined || first(cell) >= 0) &&
      (end === undefined || end(cell) < 0),
    mayBeWanted: (least, most) =>
      sets.every(({ bounds }) =>
        bounds.some((compare) => !(compare(least) > 0) && !(compare(most) < 0)),
      ) &&
      (first === undefined || !(first(most) < 0)) &&
      (end === undefined || !(end(least) >= 0)),
  };
}

function bytesOf(value: WhereValue): string {
  return Buffer.from(String(value), "utf8").toString("latin1");
}

/** Compares a cell with a bound: below 0, 0, above 0, or NaN if they are not comparable. */
type Compare = (cell: Cell) => number;

/** The order of a column's cells. */
interface Order {
  compareWith(bound: string): Compare;
  /** A set of values, one of which a cell must equal. */
  setOf(bounds: readonly string[]): {
    readonly has: (cell: Cell) => boolean;
    readonly bounds: readonly Compare[];
  };
}

function orderOf(type: ColumnType): Order {
  if (type.kind === "text") return textOrder;
  const pointsOf = (bounds: readonly string[]) => bounds.map((bound) => pointOf(type, bound));
  const compareWith = (bound: string): Compare => {
    const point = pointOf(type, bound);
    return (cell) =>
      point === undefined || typeof cell === "string" ? Number.NaN : comparePoint(cell, point);
  };
  return {
    compareWith,
    setOf: (bounds) => {
      const exact = pointsOf(bounds).flatMap((point) =>
        point?.isExact === true ? [point.at] : [],
      );
      // Cells of 64-bit integer columns are bigints, those of other integer columns numbers.
      const big = type.kind === "float" ? [] : exact.map((at) => BigInt(at));
      const all = new Set<Cell>([...exact, ...big]);
      return { has: (cell) => all.has(cell), bounds: bounds.map(compareWith) };
    },
  };
}

/** Order of text cells. Texts of the same number are equal, as are texts of the same date. */
const textOrder: Order = {
  compareWith(bound) {
    const exact = exactOf(bound);
    return (cell) => {
      const own = exact === undefined || typeof cell !== "string" ? undefined : exactOf(cell);
      if (own !== undefined && own.form === exact?.form) return compareExact(own, exact);
      return cell < bound ? -1 : cell > bound ? 1 : 0;
    };
  },
  setOf(bounds) {
    const all = new Set(bounds.map(textKey));
    return { has: (cell) => all.has(textKey(cell)), bounds: bounds.map(textOrder.compareWith) };
  },
};

function textKey(cell: Cell): string {
  const exact: ExactMoment | undefined = exactOf(String(cell));
  return exact === undefined ? `text ${cell}` : `${exact.form} ${exact.digits}e-${exact.scale}`;
}

/** Returns whether a row of a batch satisfies all predicates. */
export function rowFilter(tests: readonly RowTest[], batch: RowBatch): (row: number) => boolean {
  const columns = tests.map(({ column: name, isWanted, compared }) => {
    const column = batch.columns.get(rawName(name)) ?? batch.columns.get(name);
    if (column === undefined) throw new TypeError(`a batch lacks the column ${name}`);
    return { cellAt: cellReader(column, compared), isWanted };
  });
  return (row) => {
    for (const { cellAt, isWanted } of columns) {
      const cell = cellAt(row);
      if (cell === undefined || !isWanted(cell)) return false;
    }
    return true;
  };
}

/** Creates a reader of a column's cells; undefined for a missing value. */
function cellReader(
  column: Column,
  { type, unitsOf }: Compared,
): (row: number) => Cell | undefined {
  if (column.form === "numbers") {
    const { values } = column;
    return (row) => {
      const value = values[row] ?? Number.NaN;
      return Number.isNaN(value) ? undefined : value;
    };
  }
  const { offsets } = column;
  const placeOf = (row: number) => {
    const at = offsets[row] ?? 0;
    return at === offsets[row + 1] ? -1 : at;
  };
  if (column.form === "ids") {
    const { isUnsigned } = column;
    return (row) => {
      const at = placeOf(row);
      const id = at < 0 ? undefined : column.ids[at];
      return id !== undefined && isUnsigned === true ? BigInt.asUintN(64, id) : id;
    };
  }
  const { codes, dictionary } = column;
  const cellOf = (bytes: string): Cell => {
    if (unitsOf !== undefined) return unitsOf(bytes);
    // Boolean columns that are read as ids hold `true` and `false` as text.
    return type.kind === "text" ? bytes : Number(bytes === "true");
  };
  const known: (Cell | undefined)[] = [];
  return (row) => {
    const at = placeOf(row);
    if (at < 0) return undefined;
    const code = codes[at] ?? 0;
    const cell = known[code] ?? cellOf(dictionary[code] ?? "");
    known[code] = cell;
    return cell;
  };
}
