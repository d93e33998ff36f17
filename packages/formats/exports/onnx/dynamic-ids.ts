// Dynamic ids in ONNX, which has no hash-table lookup of ids. A table's ids are stored sorted, each
// with its row, and an unrolled binary search finds the rows of all ids of a batch at once, in
// ceil(log2(m)) steps.
//
// n = ids of the batch, m = ids that have a row.

import type { Name } from "../../../../internal.ts";
import type { ExportedTable } from "../exported-model.ts";
import type { Operators } from "./operators.ts";

/** The tensors of a table's ids in the graph. */
export interface IdsPlace {
  /** Name of the ids (m), ascending. */
  readonly ids: Name;
  /** Name of the row of each, (m). */
  readonly rows: Name;
  /** m; 1 for a table without ids, which has one placeholder. */
  readonly count: number;
}

/** The tensors of a table's ids; undefined: the table has no dynamic ids. */
export function idsPlaceOf({ stored, ids }: ExportedTable): IdsPlace | undefined {
  if (ids === undefined) return undefined;
  const name = `embedding_bags.${stored.spec.name}`;
  return { ids: `${name}.ids`, rows: `${name}.id_rows`, count: Math.max(1, ids.count) };
}

/**
 * The ids of a table, ascending, and their rows. A table without ids gets one placeholder id with
 * row -1, so that the search has an id to read.
 */
export function sortedIds(ids: NonNullable<ExportedTable["ids"]>) {
  const all = [...ids.all()].sort((a, b) => (a.id < b.id ? -1 : 1));
  if (all.length === 0) all.push({ id: 0n, row: -1 });
  return {
    ids: BigInt64Array.from(all, ({ id }) => id),
    rows: BigInt64Array.from(all, ({ row }) => BigInt(row)),
  };
}

/** Adds the binary search. Returns the row of each id (n); -1: the id has no row. */
export function findRows(to: Operators, sought: Name, { ids, rows, count }: IdsPlace): Name {
  const last = to.integers([count - 1]);
  // Index of the last id that is <= the sought one, or 0.
  let at = to.op("Expand", [to.integers([0]), to.op("Shape", [sought])]);
  for (let bit = Math.ceil(Math.log2(count)) - 1; bit >= 0; bit--) {
    const next = to.op("Min", [to.op("Add", [at, to.integers([2 ** bit])]), last]);
    const id = to.op("Gather", [ids, next], { axis: 0 });
    at = to.op("Where", [to.op("LessOrEqual", [id, sought]), next, at]);
  }
  const found = to.op("Equal", [to.op("Gather", [ids, at], { axis: 0 }), sought]);
  const row = to.op("Gather", [rows, at], { axis: 0 });
  return to.op("Where", [found, row, to.integers([-1])]);
}
