// Runs transforms on plain lists, as a data section would.

import { deepEqual } from "node:assert/strict";
import {
  type transformsOptions as schema,
  transformsOptions,
} from "../../../src/data/column-options.ts";
import { compileTransforms } from "../../../src/data/transforms/compile.ts";
import type { TransformColumn } from "../../../src/data/transforms/values.ts";
import { checkOptions } from "../../../src/ports/check-options.ts";

/** The value of a row in a column: a number, or a list. */
export type Plain = number | bigint | readonly (number | bigint | string)[];
export type Written = Parameters<typeof schema.parse>[0];

/** The result of running transforms on columns of plain rows. */
export interface PlainRun {
  readonly columns: Readonly<Record<string, readonly Plain[]>>;
  readonly weights: Readonly<Record<string, readonly number[]>>;
  readonly faults: ReadonlyMap<number, string>;
  readonly kept: Uint8Array | undefined;
}

/** Makes a column of the form that a transform reads. `weights`: one for each entry. */
export function columnOf(
  form: TransformColumn["form"],
  rows: readonly Plain[],
  weights?: readonly number[],
): TransformColumn {
  if (form === "numbers") return { form, values: Float64Array.from(rows as number[]) };
  const lists = rows.map((row) => (Array.isArray(row) ? row : [row]));
  const offsets = new Int32Array(lists.length + 1);
  for (const [i, list] of lists.entries()) offsets[i + 1] = (offsets[i] ?? 0) + list.length;
  const entries = lists.flat();
  const extra = weights === undefined ? {} : { weights: Float32Array.from(weights) };
  if (form === "lists") return { form, offsets, values: Float64Array.from(entries.map(Number)) };
  if (form === "ids") {
    return { form, offsets, ids: BigInt64Array.from(entries.map((id) => BigInt(id))), ...extra };
  }
  const dictionary = [...new Set(entries.map(String))];
  const codes = Int32Array.from(entries, (text) => dictionary.indexOf(String(text)));
  return { form, offsets, codes, dictionary, ...extra };
}

/** The rows of a column, in the form that `columnOf` takes. */
export function plainOf(column: TransformColumn): Plain[] {
  if (column.form === "numbers") return [...column.values];
  return Array.from({ length: column.offsets.length - 1 }, (_, row): Plain => {
    const [first = 0, end = 0] = [column.offsets[row], column.offsets[row + 1]];
    const entries = Array.from({ length: end - first }, (_entry, i) => {
      if (column.form === "lists") return column.values[first + i] ?? 0;
      if (column.form === "ids") return column.ids[first + i] ?? 0n;
      return column.dictionary[column.codes[first + i] ?? 0] ?? "";
    });
    return entries;
  });
}

/** Columns of plain rows by name. */
type PlainColumns = Readonly<Record<string, readonly Plain[]>>;
interface Beside {
  readonly weights?: Readonly<Record<string, readonly number[]>>;
  readonly place?: number;
  readonly firstRow?: number;
}

/**
 * Runs transforms on columns by name, with optional weights. Also runs them on repeated rows, for
 * which results are computed once, and checks that each repetition has the result of its row.
 */
export function run(transforms: unknown, columns: PlainColumns, beside: Beside = {}): PlainRun {
  const made = runOnce(transforms, columns, beside, false);
  const times = 3;
  const repeated = <Value>(values: readonly Value[]) =>
    values.flatMap((value) => new Array<Value>(times).fill(value));
  const each = <Value>(
    of: Readonly<Record<string, Value>>,
    use: (own: Value, name: string) => Value,
  ) => Object.fromEntries(Object.entries(of).map(([name, own]) => [name, use(own, name)]));
  const weights = each(beside.weights ?? {}, (own, name) => {
    let at = 0;
    return (columns[name] ?? []).flatMap((row) => {
      const first = at;
      at += Array.isArray(row) ? row.length : 1;
      return repeated([own.slice(first, at)]).flat();
    });
  });
  const shared = runOnce(transforms, each(columns, repeated), { ...beside, weights }, true);
  deepEqual(shared.columns, each(made.columns, repeated));
  const faults = [...made.faults].flatMap(([row, why]) =>
    Array.from({ length: times }, (_, i) => [times * row + i, why] as const),
  );
  deepEqual(new Map([...shared.faults].sort(([a], [b]) => a - b)), new Map(faults));
  return made;
}

function runOnce(
  transforms: unknown,
  columns: PlainColumns,
  { weights = {}, place = 0, firstRow = 0 }: Beside,
  sharesRows: boolean,
): PlainRun {
  const options = checkOptions(transformsOptions, transforms, "transforms");
  const compiled = compileTransforms(options, { sharesRows });
  const sources = compiled.sources.map(({ column, form }) => {
    return columnOf(form, columns[column] ?? [], weights[column]);
  });
  const rows = Object.values(columns)[0]?.length ?? 0;
  const made = compiled.run(sources, { rows, place, firstRow });
  const outputs = [...compiled.outputs.keys()];
  const ofEach = <Value>(pick: (column: TransformColumn) => Value | undefined) =>
    Object.fromEntries(
      outputs.flatMap((name): [string, Value][] => {
        const column = made.columns.get(name);
        const value = column && pick(column);
        return value === undefined ? [] : [[name, value]];
      }),
    );
  return {
    columns: ofEach(plainOf),
    weights: ofEach((column) =>
      "weights" in column && column.weights !== undefined ? [...column.weights] : undefined,
    ),
    faults: made.faults,
    kept: made.kept,
  };
}

/** The output of a single transform of `x`, and optionally `y`. */
export function out(
  transform: object,
  columns: Readonly<Record<string, readonly Plain[]>>,
  weights: Readonly<Record<string, readonly number[]>> = {},
): readonly Plain[] {
  const reads = "y" in columns ? { inputs: ["x", "y"] } : { input: "x" };
  return run([{ ...reads, output: "out", ...transform }], columns, { weights }).columns.out ?? [];
}
