// Reads CSV and JSON Lines as rows of stored values. All lines are read twice: first to infer the
// types of columns, then for the rows. A malformed line is an error with its line number.

import {
  headerNames,
  InputUnusableError,
  objectIn,
  readLines,
  shownPath,
  splitLine,
} from "../../../internal.ts";
import { InferredType, type Loose } from "./inferred-type.ts";
import { looseOf } from "./loose-values.ts";
import type { TableRows, TableSource } from "./table-columns.ts";

/** The format of a text file. */
export type TextKind = "csv" | "tsv" | "jsonl";

/** Most rows of a chunk. */
const chunkRows = 4096;

/** A row as (column, value) pairs. */
type LooseRow = Iterable<readonly [string, Loose]>;

/**
 * Opens files; the columns are the union of all files' columns.
 * @throws InputUnusableError where a file or a line cannot be read, or a column mixes forms
 */
export async function openTextTable(
  paths: readonly string[],
  kind: TextKind,
  isStopped: () => void,
): Promise<TableSource> {
  const types = new Map<string, InferredType>();
  let rows = 0;
  for (const path of paths) {
    for await (const { names, row, line } of textRows(path, kind)) {
      if (names === undefined) rows++;
      if (line % chunkRows === 0) isStopped();
      for (const name of names ?? []) if (!types.has(name)) types.set(name, new InferredType());
      for (const [name, loose] of row) {
        const type = types.get(name) ?? new InferredType();
        types.set(name, type);
        type.add(loose);
        if (type.isMixed)
          throw refused(shownPath(path), line, `\`${name}\` mixes values with lists or weights`);
      }
    }
  }
  return {
    columns: [...types].map(([name, type]) => ({ name, elements: type.elements(name) })),
    countRows: async () => rows,
    async *chunks(from = 0) {
      let left = from;
      for (const path of paths) {
        let chunk = new Chunk(path, types);
        for await (const { row, line, names } of textRows(path, kind)) {
          if (names !== undefined || left-- > 0) continue;
          chunk.add(row, line);
          if (chunk.rows < chunkRows) continue;
          yield chunk;
          chunk = new Chunk(path, types);
        }
        if (chunk.rows > 0) yield chunk;
      }
    },
  };
}

class Chunk implements TableRows {
  readonly columns: Map<string, unknown[]>;
  readonly #types: ReadonlyMap<string, InferredType>;
  readonly file: string;
  readonly #lines: number[] = [];
  rows = 0;

  constructor(file: string, types: ReadonlyMap<string, InferredType>) {
    this.file = file;
    this.#types = types;
    this.columns = new Map([...types.keys()].map((name) => [name, []]));
  }

  placeOf(row: number): string {
    return `line ${this.#lines[row] ?? 0} of ${shownPath(this.file)}`;
  }

  add(row: LooseRow, line: number): void {
    this.#lines.push(line);
    for (const values of this.columns.values()) values.push(undefined);
    for (const [name, loose] of row) {
      const values = this.columns.get(name);
      if (values !== undefined) values[this.rows] = this.#types.get(name)?.stored(loose);
    }
    this.rows++;
  }
}

/** A line of a file: a row, or the header. */
interface TextRow {
  /** The column names, if this is the header; then there is no row. */
  readonly names?: readonly string[];
  readonly row: LooseRow;
  readonly line: number;
}

interface TextRowsOptions {
  /** Column names of a file without a header. @default none: the first line is the header */
  readonly given?: readonly string[] | undefined;
  /** @default that of the kind: a tab, or a comma */
  readonly delimiter?: string | undefined;
  /** Called for each malformed line. @default the first malformed line throws */
  readonly onBad?: ((line: number, why: string) => void) | undefined;
}

/** The rows of a file, after its header if it has one. @throws as `openTextTable` */
export async function* textRows(
  address: string,
  kind: TextKind,
  { given, delimiter = kind === "tsv" ? "\t" : ",", onBad }: TextRowsOptions = {},
): AsyncGenerator<TextRow> {
  const path = shownPath(address);
  let names = given;
  if (given !== undefined) yield { names: given, row: [], line: 0 };
  const quoting = kind === "jsonl" ? undefined : delimiter;
  for await (const { lines, lineOf } of readLines(address, quoting)) {
    for (const [i, text] of lines.entries()) {
      const line = lineOf(i);
      if (kind !== "jsonl" && names === undefined) {
        names = headerNames(path, text, delimiter);
        yield { names, row: [], line };
        continue;
      }
      if (text === "") continue;
      const row = text === undefined ? "it is too long" : rowOf(text, names, delimiter);
      if (typeof row !== "string") yield { row, line };
      else if (onBad !== undefined) onBad(line, row);
      else throw refused(path, line, row);
    }
  }
}

/** Parses a line. Returns its row, or the reason why it is malformed. */
function rowOf(text: string, names: readonly string[] | undefined, delimiter: string) {
  return names === undefined ? jsonRow(text) : csvRow(text, names, delimiter);
}

function csvRow(text: string, names: readonly string[], delimiter: string): LooseRow | string {
  const fields = splitLine(text, delimiter, true);
  if (typeof fields === "string") return fields;
  if (fields.length !== names.length) {
    return `expected ${names.length} fields, as the header has, got ${fields.length}`;
  }
  return fields.flatMap((value, i): [string, Loose][] => {
    return value === "" ? [] : [[names[i] ?? "", { form: "value", value }]];
  });
}

function jsonRow(text: string): LooseRow | string {
  const object = objectIn(text);
  if (object === undefined) return "expected a JSON object";
  const row: [string, Loose][] = [];
  for (const [name, value] of Object.entries(object)) {
    if (value === null) continue;
    const loose = looseOf(value);
    const forms = "a value, a list of values, an object of weights by id, or a list of pairs";
    if (loose === undefined) return `expected \`${name}\` to be ${forms}`;
    row.push([name, loose]);
  }
  return row;
}

function refused(path: string, line: number, why: string): InputUnusableError {
  return new InputUnusableError(path, `Cannot read line ${line} of ${path}: ${why}`);
}
