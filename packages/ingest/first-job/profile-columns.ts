// Profiles the columns of a user's data from a bounded sample of the first rows: the number of
// values, their kinds, and the frequencies of distinct values (column-tally.ts). The job that
// `osiris init` proposes is derived from it (column-roles.ts, write-first-job.ts).

import type { SchemaElement } from "hyparquet";
import {
  InputUnusableError,
  isNumber,
  readLines,
  shownPath,
  splitLine,
} from "../../../internal.ts";
import type { Loose } from "../warehouse/inferred-type.ts";
import { filesFor, kindOf, openSource } from "../warehouse/open-source.ts";
import type { RefusedColumns } from "../warehouse/table-columns.ts";
import { textRows } from "../warehouse/text-table.ts";
import { type ColumnProfile, ColumnTally } from "./column-tally.ts";

/** The profile of some files. */
export interface DataProfile {
  /** `criteo-tsv`: the layout of Criteo's logs, which have no header. */
  readonly kind: "csv" | "tsv" | "jsonl" | "parquet" | "arrow" | "criteo-tsv";
  /** The field separator; undefined: the default of `kind`. */
  readonly delimiter?: string | undefined;
  /** Files, directories and patterns as given, and the files that they match. */
  readonly paths: readonly string[];
  readonly files: readonly string[];
  /** Number of rows read, and whether they are all rows. */
  readonly rows: number;
  readonly isWhole: boolean;
  /** Number of malformed lines, and a description of the first one. */
  readonly bad: number;
  readonly firstBad?: string | undefined;
  readonly columns: readonly ColumnProfile[];
}

/** Options of `profileColumns`. */
export interface ProfileOptions {
  /** Most rows to read. @default 50_000 */
  readonly rowsMax?: number | undefined;
  /** The field separator of text files. @default detected from the header */
  readonly delimiter?: string | undefined;
}

/**
 * Profiles the columns of files by their first rows. Malformed lines are skipped and counted, as in
 * training.
 * @throws InputUnusableError where a file cannot be read, or has no rows
 */
export async function profileColumns(
  paths: readonly string[],
  { rowsMax = 50_000, delimiter: given }: ProfileOptions = {},
  signal?: AbortSignal,
): Promise<DataProfile> {
  const files = await filesFor(paths);
  const [first = ""] = files;
  const ending = kindOf(first);
  const kind = (await isCriteo(first, ending)) ? "criteo-tsv" : ending;
  const delimiter = given ?? (kind === "csv" ? await delimiterOf(first) : undefined);
  const columns = new Map<string, ColumnTally>();
  let [rows, bad] = [0, 0];
  let firstBad: string | undefined;
  let isWhole = true;
  const onBad = (file: string, line: number, why: string) => {
    bad++;
    firstBad ??= `line ${line} of ${shownPath(file)}: ${why}`;
  };
  const refused: RefusedColumns = new Map();
  for await (const row of rowsIn(files, kind, { delimiter, onBad, refused }, signal)) {
    signal?.throwIfAborted();
    if (rows === rowsMax) {
      isWhole = false;
      break;
    }
    for (const [name, loose] of row) {
      const tally = columns.get(name) ?? new ColumnTally();
      columns.set(name, tally);
      if (loose !== undefined) tally.add(loose);
    }
    rows++;
  }
  if (rows === 0) {
    const why = firstBad === undefined ? "got none" : `got ${bad} bad ones; ${firstBad}`;
    throw new InputUnusableError(first, `Expected rows in ${first}, ${why}`);
  }
  return {
    ...{ kind, delimiter, paths, files, rows, isWhole, bad, firstBad },
    columns: [...columns].map(([name, tally]) => {
      return { ...tally.profile(name, rows, isWhole), refused: refused.get(name) };
    }),
  };
}

/** The separator that splits a CSV file's header into the most fields; undefined: a comma. */
async function delimiterOf(file: string): Promise<string | undefined> {
  for await (const { lines } of readLines(file)) {
    const [header = ""] = lines;
    let [most, found]: [number, string | undefined] = [0, undefined];
    for (const one of [",", ";", "\t", "|"]) {
      const fields = splitLine(header, one, true);
      if (typeof fields !== "string" && fields.length > most) {
        [most, found] = [fields.length, one === "," ? undefined : one];
      }
    }
    return found;
  }
  return undefined;
}

/** A row as (column, value) pairs; undefined marks a column without a value in this row. */
type SampledRow = Iterable<readonly [string, Loose | undefined]>;

/** How rows are read: text by its separator; columns that no job can read go to `refused`. */
interface Reading {
  readonly delimiter: string | undefined;
  readonly refused: RefusedColumns;
  readonly onBad: (file: string, line: number, why: string) => void;
}

async function* rowsIn(
  files: readonly string[],
  kind: DataProfile["kind"],
  { delimiter, onBad, refused }: Reading,
  signal: AbortSignal | undefined,
): AsyncGenerator<SampledRow> {
  if (kind === "parquet" || kind === "arrow") {
    const source = await openSource(files, signal, refused);
    for (const { name, elements } of source.columns) {
      if (isStruct(elements)) refused.set(name, `a struct: a job names its members, \`${name}.…\``);
    }
    const readers = new Map(source.columns.map(({ name, elements }) => [name, readerOf(elements)]));
    for await (const { rows, columns } of source.chunks()) {
      for (let row = 0; row < rows; row++) {
        const read = [...columns].map(([name, values]) => {
          return [name, looseOfStored(values[row], readers.get(name))] as const;
        });
        const left = [...refused.keys()].map((name) => [name, undefined] as const);
        yield [...read.filter(([name]) => !refused.has(name)), ...left];
      }
    }
    return;
  }
  for (const file of files) {
    let names: readonly string[] = [];
    const [format, given] = kind === "criteo-tsv" ? (["tsv", criteoNames] as const) : [kind];
    const options = {
      ...{ given, delimiter },
      onBad: (line: number, why: string) => onBad(file, line, why),
    };
    for await (const { names: header, row } of textRows(file, format, options)) {
      if (header !== undefined) names = namedBy(file, header);
      else yield [...names.map((name) => [name, undefined] as const), ...row];
    }
  }
}

/** The columns of Criteo's logs. */
const criteoNames = [
  "label",
  ...Array.from({ length: 13 }, (_, i) => `I${i + 1}`),
  ...Array.from({ length: 26 }, (_, i) => `C${i + 1}`),
];

/** Whether a file has the layout of Criteo's logs, without a header: label, 13 counts, 26 ids. */
async function isCriteo(file: string, kind: string): Promise<boolean> {
  if (kind !== "tsv") return false;
  for await (const { lines } of readLines(file)) {
    const fields = lines[0]?.split("\t") ?? [];
    const isCount = (field: string) => field === "" || /^-?\d+$/.test(field);
    const isLabel = fields[0] === "0" || fields[0] === "1";
    return fields.length === criteoNames.length && isLabel && fields.slice(1, 14).every(isCount);
  }
  return false;
}

/** @throws InputUnusableError where the first line is a row instead of a header */
function namedBy(file: string, names: readonly string[]): readonly string[] {
  if (file !== "" && names.some((name) => isNumber(name.trim()))) {
    const path = shownPath(file);
    const found = names.slice(0, 4).join(", ");
    const message = `The first line of ${path} looks like a row (${found}), expected the names of the columns: put them before it`;
    throw new InputUnusableError(path, message);
  }
  return names;
}

/** Converts a Parquet or Arrow scalar to its text or number; undefined: no conversion. */
type StoredReader = ((value: unknown) => string | number) | undefined;

/** The converter for a column's logical type: timestamps, dates, decimals, unsigned integers. */
function readerOf(elements: readonly SchemaElement[]): StoredReader {
  const {
    logical_type: logical,
    converted_type: converted,
    ...leaf
  } = elements.at(-1) ?? {
    name: "",
  };
  const type = logical?.type ?? converted ?? "";
  if (type === "DECIMAL") {
    const unit = 10 ** -(leaf.scale ?? 0);
    return (value) => Number(value instanceof Uint8Array ? bigEndian(value) : value) * unit;
  }
  if (type === "DATE") return (value) => dateOf(86_400_000 * Number(value)).slice(0, 10);
  if (type.startsWith("TIMESTAMP")) {
    const unit = logical?.type === "TIMESTAMP" ? logical.unit : type.slice("TIMESTAMP_".length);
    const perMs = unit === "NANOS" ? 1e6 : unit === "MICROS" ? 1e3 : 1;
    return (value) => dateOf(Number(value) / perMs);
  }
  const isUnsigned = type === "UINT_64" || (logical?.type === "INTEGER" && !logical.isSigned);
  return isUnsigned ? (value) => String(BigInt.asUintN(64, BigInt(value as bigint))) : undefined;
}

/** Whether a column is a struct: its members are neither a list nor a map. */
function isStruct([own, member]: readonly SchemaElement[]): boolean {
  return own?.converted_type === undefined && member !== undefined;
}

function dateOf(ms: number): string {
  const date = new Date(Math.floor(ms));
  return Number.isNaN(date.getTime()) ? String(ms) : date.toISOString();
}

/** Decodes a big-endian signed integer. */
function bigEndian(bytes: Uint8Array): bigint {
  const digits = Buffer.from(bytes).toString("hex");
  return BigInt.asIntN(8 * bytes.length, BigInt(`0x${digits === "" ? "0" : digits}`));
}

/** A decoded Parquet or Arrow value as a `Loose` value; undefined: missing. */
function looseOfStored(value: unknown, read: StoredReader): Loose | undefined {
  if (value === null || value === undefined) return undefined;
  if (Number.isNaN(value)) return undefined;
  if (!Array.isArray(value)) return { form: "value", value: read?.(value) ?? scalarOf(value) };
  const isMap = value.some((one) => one !== null && typeof one === "object" && "key" in one);
  if (!isMap) return { form: "list", items: value.map(scalarOf) };
  const pairs = value.map(({ key, value: weight }): readonly [string | number, number] => {
    const id = scalarOf(key);
    return [typeof id === "boolean" ? `${id}` : id, Number(weight)];
  });
  return { form: "map", pairs };
}

/** A scalar; text becomes its UTF-8 bytes in latin1, as text of CSV files is represented. */
function scalarOf(value: unknown): string | number | boolean {
  if (typeof value === "number" || typeof value === "boolean") return value;
  if (typeof value === "bigint") {
    return Number.isSafeInteger(Number(value)) ? Number(value) : `${value}`;
  }
  if (value instanceof Uint8Array) return Buffer.from(value).toString("latin1");
  const text = value instanceof Date ? value.toISOString() : String(value);
  return /[^\0-\x7f]/.test(text) ? Buffer.from(text, "utf8").toString("latin1") : text;
}
