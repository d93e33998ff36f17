// What a learned search places: whole tables or parts of them, and the moves that make parts of a
// part. NeuroShard (Zha et al., MLSys 2023) halves columns alone; rows that are halved, rows that
// rest below memory and copies on every device are moves here, too, where who asks allows them.

import { type CostTable, isHalvable, weightBytesOf } from "../cost-table.ts";

/** What may become of a part, in the order in which it is tried. */
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

/** A part of a table; `Place`: what who asks has to know of it. */
export interface TablePart<Place = unknown> {
  /** Equal for parts that cost as much, weigh as much, and may become the same. */
  readonly name: string;
  readonly table: CostTable;
  /** Bytes that it needs on its device; a copy needs them on each. */
  readonly bytes: number;
  /** Milliseconds of its device that the networks do not know. Of a copy: all that it costs. */
  readonly formulaMs: number;
  readonly isCopied: boolean;
  readonly place: Place;
  /** The parts that each move makes of it; the same ones whenever they are asked for. */
  readonly moves: ReadonlyMap<MoveKind, () => readonly TablePart<Place>[]>;
}

/** What becomes of the part at an index. */
export interface Move {
  readonly part: number;
  readonly kind: MoveKind;
}

/**
 * The parts after each of `steps`: the first part that a move makes takes the place of the one that
 * is moved, the others come last.
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

/** The same, asked for once. */
export function once<Value>(make: () => Value): () => Value {
  let made: { readonly value: Value } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}

/** Whole tables as the paper has them: columns may be halved, weights are all that they weigh. */
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
