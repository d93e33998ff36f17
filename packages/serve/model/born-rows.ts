// Initial values of rows that no step has trained.

import {
  type Kernels,
  type Key,
  type Rows,
  rowBirthOf,
  type TableSpec,
} from "../../../internal.ts";

/** The inputs that determine the initial values of a table's rows. */
export interface RowBirth {
  readonly spec: TableSpec;
  /** Index of the table in the job. */
  readonly table: number;
  readonly key: Key;
}

/** Initialises the rows `ids` of a table, at slots `places`. */
export function bear(
  kernels: Kernels,
  rows: Rows,
  places: Int32Array,
  ids: Int32Array,
  { spec, table, key }: RowBirth,
): void {
  const { purpose, scale } = rowBirthOf(spec, table);
  kernels.bornAt(rows, places, ids, key, purpose, scale, 0);
}
