// Which rows are wanted: predicates on columns. What has no value is never wanted.
//
// Cells and bounds are compared in the type of the column (exact-values.ts): as numbers where both
// are numbers, as times where both are dates, and else as text, byte by byte: `03` equals 3, and
// `2026-11-01` lies before `2026-11-01T12:00`.

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

/** A predicate, read once for columns of one type. */
export interface RowTest {
  readonly column: string;
  readonly compared: Compared;
  /** Whether a value is wanted. */
  readonly isWanted: (cell: Cell) => boolean;
  /** Whether any value from `least` to `most` may be wanted. */
  readonly mayBeWanted: (least: Cell, most: Cell) => boolean;
}

/** Text, as the keys of partitions are. */
const text: Compared = { type: { kind: "text" } };

/** The name of the column in a batch that has all bits of its cells, beside that which rounds. */
export function rawName(name: string): string {
  return `\0${name}`;
}

/** The test of a predicate. `compared`: how the cells of its column are. @default text */
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

/** Compares a cell with a bound: below 0, 0, or above 0; NaN: they cannot be compared. */
type Compare = (cell: Cell) => number;

/** The order of a column's cells. */
interface Order {
  compareWith(bound: string): Compare;
  /** Bounds of which one is wanted. */
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
      // A cell of 64 bits is a bigint, and other integers are numbers.
      const big = type.kind === "float" ? [] : exact.map((at) => BigInt(at));
      const all = new Set<Cell>([...exact, ...big]);
      return { has: (cell) => all.has(cell), bounds: bounds.map(compareWith) };
    },
  };
}

/** A number of a text equals another text of the same number, and a date another one of it. */
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

/** Whether a row of a batch is wanted. */
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

/** The cell of a row; undefined: it has no value. */
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
    // Booleans that are ids are their texts.
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
