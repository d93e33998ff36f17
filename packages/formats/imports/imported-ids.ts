// The ids of tables with dynamic ids, as an export of Osiris stores them beside the rows:
// `embedding_bags.TABLE.ids` and `.id_rows`. Rows without an id are not imported; an id that gets
// such a row later begins with its own initial values.

import {
  blockOf,
  blockRowsOf,
  InputUnusableError,
  InvalidOptionError,
  type JobSpec,
  mix64Low,
  type TableSpec,
} from "../../../internal.ts";
import type { SourceTensor, TensorSource } from "./tensor-source.ts";

/** The ids of a table, in ascending order of their rows. */
export interface ImportedIds {
  /** (n) */
  readonly rows: Int32Array;
  /** (n) */
  readonly ids: BigInt64Array;
}

/** Names of the tensors with a table's ids and with their rows. */
export function idNames(table: string): readonly [ids: string, rows: string] {
  return [`embedding_bags.${table}.ids`, `embedding_bags.${table}.id_rows`];
}

/**
 * The ids of each table of a job; undefined: the table has no dynamic ids. `tensorOf`: finds a
 * tensor of the file by name.
 * @throws InvalidOptionError where the file has no ids for a table with dynamic ids
 * @throws InputUnusableError where the ids contradict the table
 */
export function idsOfTables(
  { model }: JobSpec,
  source: TensorSource,
  tensorOf: (name: string) => SourceTensor | undefined,
): (ImportedIds | undefined)[] {
  return model.tables.map((table) => {
    if (table.dynamic === undefined) return undefined;
    const [ids, rows] = idNames(table.name).map(tensorOf);
    if (ids !== undefined && rows !== undefined) return idsIn(table, source, ids, rows);
    const message =
      `Expected the ids that have the rows of table \`${table.name}\`, which has dynamic ids, in ` +
      `${source.path}, as an export of Osiris to safetensors or ONNX has them, got none`;
    const instead = "import that export, or name a job in which the table has no `dynamic`";
    throw new InvalidOptionError("model.tables", `${message}: ${instead}`);
  });
}

function idsIn(
  table: TableSpec,
  { path }: TensorSource,
  ids: SourceTensor,
  rows: SourceTensor,
): ImportedIds {
  const [ofIds, ofRows] = [numbersIn(ids), numbersIn(rows)];
  const refuse = (what: string) => {
    const message = `Expected \`${table.name}\` of ${path} to have ids with a row each`;
    return new InputUnusableError(path, `${message}, got ${what}`);
  };
  if (ofIds?.length !== ofRows?.length || ofIds === undefined || ofRows === undefined) {
    throw refuse("ids and rows that are no integers of 64 bits, or not as many");
  }
  // An ONNX model has a placeholder with row -1 for a table without ids.
  const pairs = Array.from(ofIds, (id, i) => ({ id, row: Number(ofRows[i]) }));
  const known = pairs.filter(({ row }) => row !== -1).sort((a, b) => a.row - b.row);
  const blockRows = blockRowsOf(table);
  const seen = new Set<bigint>();
  for (const [i, { id, row }] of known.entries()) {
    if (!(row >= 0 && row < table.rows)) throw refuse(`row ${row} of ${table.rows}`);
    if (row === known[i - 1]?.row) throw refuse(`two ids with the row ${row}`);
    if (seen.has(id)) throw refuse(`the id ${id} twice`);
    seen.add(id);
    const hash = mix64Low(Number(BigInt.asIntN(32, id)), Number(id >> 32n));
    if (Math.floor(row / blockRows) === blockOf(hash, table.rowBlocks)) continue;
    throw refuse(`the id ${id} in a row of another of the table's ${table.rowBlocks} row blocks`);
  }
  return {
    rows: Int32Array.from(known, ({ row }) => row),
    ids: BigInt64Array.from(known, ({ id }) => id),
  };
}

function numbersIn(tensor: SourceTensor): BigInt64Array | undefined {
  const [count = 0] = tensor.shape;
  if (tensor.type !== "int64" || tensor.shape.length !== 1) return undefined;
  const { buffer, byteOffset } = tensor.read(0, count);
  return new BigInt64Array(buffer, byteOffset, count);
}
