// A chunk of lines as rows of fields, which the row encoder reads like the columns of a batch. A
// line is split into texts only if it is JSON or has quotes, or if some field of it is read as
// text.

import type { FieldColumn } from "../columnar/column.ts";
import type { SourceRows } from "../source-rows.ts";
import { type Columns, fieldsOf } from "./columns.ts";
import type { LineFault } from "./faults.ts";
import { type FieldValues, listEntries } from "./field-values.ts";
import { type ByteLines, lineBytesMax } from "./text-lines.ts";

/** The fault of a line that is too long. */
const tooLong: LineFault = { kind: `longer than ${lineBytesMax} bytes` };

/** The lines of a batch; those of a file are `ByteLines`. */
export type BatchLines = Pick<ByteLines, "count" | "isTooLong" | "text">;

/** Lines that a caller has as texts, one character per byte. */
export function linesOf(texts: readonly string[]): BatchLines {
  return { count: texts.length, isTooLong: () => false, text: (row) => texts[row] ?? "" };
}

/** The lines of a chunk of a file, and their parsed fields. */
interface ParsedLines {
  readonly lines: ByteLines;
  readonly values: FieldValues;
}

/** The lines of a chunk. A row is a line; valid as long as the chunk and its parsed fields. */
export class LineBatch implements SourceRows {
  readonly rows: number;
  readonly firstRow: number;
  readonly columns: SourceRows["columns"];
  readonly dense: SourceRows["dense"];
  readonly bags: SourceRows["bags"];
  readonly #layout: Columns;
  readonly #lines: BatchLines;
  /** First byte of each field (`FieldValues.begins`), of `#bytes`; empty if none was parsed. */
  readonly #begins: Int32Array;
  readonly #bytes: Uint8Array;
  /** Texts of lines, and fields of lines that were not parsed, by row; filled when needed. */
  readonly #texts: string[];
  readonly #fields: (readonly string[] | LineFault)[];

  /**
   * `firstLine`: number of the first line in the file, from 1. `parsed`: the parsed fields of a
   * chunk of a file; left out, all fields are read as text, with the same result.
   */
  constructor(layout: Columns, lines: BatchLines, firstLine: number, parsed?: ParsedLines) {
    this.rows = lines.count;
    // Rows are numbered as in a columnar file: row 0 is the line below the header of a CSV file, or
    // the first line of a JSON Lines file.
    this.firstRow = firstLine - (layout.json === undefined ? 2 : 1);
    this.#layout = layout;
    this.#lines = lines;
    this.#begins = parsed?.values.begins ?? new Int32Array(0);
    this.#bytes = parsed?.lines.bytes ?? new Uint8Array(0);
    this.#texts = new Array(lines.count);
    this.#fields = new Array(lines.count);
    this.columns = {
      get: (name) => {
        const field = layout.header.indexOf(name);
        return field >= 0 && field < layout.fields ? new LineField(this, field) : undefined;
      },
    };
    if (parsed === undefined) return;
    const { lines: chunk, values } = parsed;
    const of = <Values extends Float64Array | Int32Array>(all: Values, place: number) => {
      return all.subarray(place * values.lines, (place + 1) * values.lines) as Values;
    };
    let [numbers, ids] = [0, 0];
    this.dense = layout.dense.map(({ field, isMade }) => {
      if (isMade === true) return undefined;
      return new LineField(this, field, { numbers: of(values.numbers, numbers++) });
    });
    this.bags = layout.categorical.map((one) => {
      if (one.isMade === true) return undefined;
      const rows = of(values.ids, ids++);
      if (one.isWide || one.weightSeparator !== undefined) return new LineField(this, one.field);
      const isList = one.separator !== undefined;
      const single = { offsets: values.offsets, rows };
      const entries = () => (isList ? listEntries(values, chunk, one) : single);
      return new LineField(this, one.field, { entries });
    });
  }

  /** Whether the lines are JSON. */
  get isJson(): boolean {
    return this.#layout.json !== undefined;
  }

  faultOf(row: number): LineFault | undefined {
    if (this.#firstOf(row) >= 0) return undefined;
    const fields = this.#fieldsOf(row);
    return isFault(fields) ? fields : undefined;
  }

  /** As `FieldColumn.textOf`. */
  textOf(row: number, field: number): string {
    const first = this.#firstOf(row);
    if (first < 0) {
      const fields = this.#fieldsOf(row);
      return isFault(fields) ? "" : (fields[field] ?? "");
    }
    this.#texts[row] ??= this.#lines.text(row);
    const start = this.#begins[first] ?? 0;
    const begin = this.#begins[first + field] ?? 0;
    const end = (this.#begins[first + field + 1] ?? 0) - 1;
    return (this.#texts[row] ?? "").slice(begin - start, end - start);
  }

  /** As `FieldColumn.byteOf`. */
  byteOf(row: number, field: number): number {
    const first = this.#firstOf(row);
    if (first < 0) return 256;
    const begin = this.#begins[first + field] ?? 0;
    return this.#begins[first + field + 1] === begin + 2 ? (this.#bytes[begin] ?? 256) : 256;
  }

  /** Index of a row's first field in `#begins`; -1 if its fields were not parsed. */
  #firstOf(row: number): number {
    const first = row * (this.#layout.fields + 1);
    return (this.#begins[first] ?? -1) < 0 ? -1 : first;
  }

  #fieldsOf(row: number): readonly string[] | LineFault {
    const lines = this.#lines;
    const known = this.#fields[row];
    if (known !== undefined) return known;
    const fields = lines.isTooLong(row) ? tooLong : fieldsOf(lines.text(row), this.#layout);
    this.#fields[row] = fields;
    return fields;
  }
}

/** A field of the lines of a batch. */
class LineField implements FieldColumn {
  readonly form = "fields";
  readonly numbers: Float64Array | undefined;
  readonly #batch: LineBatch;
  readonly #field: number;
  readonly #read: (() => FieldColumn["entries"]) | undefined;
  #entries: FieldColumn["entries"];

  constructor(
    batch: LineBatch,
    field: number,
    parsed: {
      readonly numbers?: Float64Array;
      readonly entries?: () => FieldColumn["entries"];
    } = {},
  ) {
    this.#batch = batch;
    this.#field = field;
    this.numbers = parsed.numbers;
    this.#read = parsed.entries;
  }

  get isJson(): boolean {
    return this.#batch.isJson;
  }

  /** Lists are parsed when they are read first. */
  get entries(): FieldColumn["entries"] {
    this.#entries ??= this.#read?.();
    return this.#entries;
  }

  textOf(row: number): string {
    return this.#batch.textOf(row, this.#field);
  }

  byteOf(row: number): number {
    return this.#batch.byteOf(row, this.#field);
  }
}

function isFault(fields: readonly string[] | LineFault): fields is LineFault {
  return !Array.isArray(fields);
}
