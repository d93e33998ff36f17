// The units that a learned search places: whole tables or parts of them, and the moves that replace
// a part by other parts. NeuroShard (Zha et al., MLSys 2023) only halves columns. Halving rows,
// keeping rows below memory, and copies on every device are further moves, if the caller allows
// them.

import { type CostTable, isHalvable, weightBytesOf } from "../../../internal.ts";

/** The kinds of moves, in the order in which they are tried. */
export const moveKinds = [
  /** Two halves of its columns, which are looked up by the same ids. */
  "columns",
  /** Two halves of its rows, each with its share of the ids, and sums of all columns to send. */
  "rows",
  /** Its rows rest below memory, behind a cache. */
  "cached",
  /** A copy on every device. */
  "copied",
] as const;

export type MoveKind = (typeof moveKinds)[number];

/** A part of a table; `Place` is data of the caller. */
export interface TablePart<Place = unknown> {
  /** Equal for parts with equal costs, bytes and moves. */
  readonly name: string;
  readonly table: CostTable;
  /** Bytes that the part needs on its device; a copy needs them on every device. */
  readonly bytes: number;
  /** Milliseconds on its device that the networks do not predict; for a copy, its whole cost. */
  readonly formulaMs: number;
  readonly isCopied: boolean;
  readonly place: Place;
  /** The parts that each move makes of this part; repeated calls return the same parts. */
  readonly moves: ReadonlyMap<MoveKind, () => readonly TablePart<Place>[]>;
}

/** A move of the part at an index. */
export interface Move {
  readonly part: number;
  readonly kind: MoveKind;
}

/**
 * Returns the parts after the moves `steps`: the first new part of a move takes the index of the
 * moved part, the others are appended.
 */
export function moved<Place>(
  parts: readonly TablePart<Place>[],
  steps: readonly Move[],
): TablePart<Place>[] {
  const all = [...parts];
  for (const { part, kind } of steps) {
    const [first, ...others] = all[part]?.moves.get(kind)?.() ?? [];
    if (first === undefined) throw new RangeError(`Expected a part with a move ${kind} at ${part}`);
    all[part] = first;
    all.push(...others);
  }
  return all;
}

/** Returns a function that calls `make` once, and returns that value in every call. */
export function once<Value>(make: () => Value): () => Value {
  let made: { readonly value: Value } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}

/** Whole tables as in the paper: columns may be halved, and only weights count as bytes. */
export function tableParts(tables: readonly CostTable[]): TablePart<number>[] {
  return tables.map((table, index) => tablePart(table, index));
}

function tablePart(table: CostTable, place: number): TablePart<number> {
  const { rows, dim, poolingFactor, bins } = table;
  const halves = once(() => {
    const half = tablePart({ ...table, dim: dim / 2 }, place);
    return [half, half];
  });
  return {
    name: JSON.stringify([rows, dim, poolingFactor, bins]),
    ...{ table, place, bytes: weightBytesOf(table), formulaMs: 0, isCopied: false },
    moves: new Map(isHalvable(table) ? [["columns", halves] as const] : []),
  };
}
