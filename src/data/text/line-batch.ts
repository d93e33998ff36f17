// A chunk of lines as rows of fields, which the row encoder reads like the columns of a batch. A line
// is split into texts only if it is JSON or has quotes, or if some field of it is read as text.

import type { FieldColumn } from "../columnar/column.ts";
import type { CategoricalField, DenseField } from "../columnar/named-columns.ts";
import type { SourceRows } from "../source-rows.ts";
import { type FieldValues, listEntries } from "./bytes/field-values.ts";
import { type Columns, fieldsOf } from "./columns.ts";
import type { LineFault } from "./faults.ts";
import { type ByteLines, lineBytesMax } from "./text-lines.ts";

/** The fault of a line that is too long. */
const tooLong: LineFault = { kind: `longer than ${lineBytesMax} bytes` };

/** The lines of a batch; those of a file are `ByteLines`. */
export type BatchLines = Pick<ByteLines, "count" | "isTooLong" | "text">;

/** Lines that a caller has as texts, one character per byte. */
export function linesOf(texts: readonly string[]): BatchLines {
  return { count: texts.length, isTooLong: () => false, text: (row) => texts[row] ?? "" };
}

/** The lines of a chunk. A row is a line; valid as long as the chunk and its parsed fields. */
export class LineBatch implements SourceRows {
  readonly rows: number;
  readonly firstRow: number;
  readonly columns: ReadonlyMap<string, FieldColumn>;
  readonly dense: readonly (FieldColumn | undefined)[] | undefined;
  readonly bags: readonly (FieldColumn | undefined)[] | undefined;
  readonly #layout: Columns;
  readonly #lines: BatchLines;
  /** First byte of each field (`FieldValues.begins`); undefined if no field was parsed. */
  readonly #begins: Int32Array | undefined;
  readonly #bytes: Uint8Array;
  /** Texts of lines, and fields of lines that were not parsed, by row; filled when needed. */
  readonly #texts: string[];
  readonly #fields: (readonly string[] | LineFault)[];

  /**
   * `firstLine`: number of the first line in the file, from 1. `parsed`: the parsed fields of a
   * chunk of a file; left out, all fields are read as text, with the same result.
   */
  constructor(
    layout: Columns,
    lines: BatchLines,
    firstLine: number,
    parsed?: { readonly lines: ByteLines; readonly values: FieldValues },
  ) {
    this.rows = lines.count;
    // Row numbers match those of a columnar file: row 0 is the line below the header, or the first
    // line of JSON.
    this.firstRow = firstLine - (layout.json === undefined ? 2 : 1);
    this.#layout = layout;
    this.#lines = lines;
    this.#begins = parsed?.values.begins;
    this.#bytes = parsed?.lines.bytes ?? new Uint8Array(0);
    this.#texts = new Array(lines.count);
    this.#fields = new Array(lines.count);
    const names = layout.header.slice(0, layout.fields);
    this.columns = new Map(names.map((name, field) => [name, this.#column(field)]));
    if (parsed === undefined) return;
    const { values } = parsed;
    let [numbers, ids] = [0, 0];
    this.dense = layout.dense.map((one) => {
      return one.isMade === true ? undefined : this.#denseColumn(one, values, numbers++);
    });
    this.bags = layout.categorical.map((one) => {
      return one.isMade === true ? undefined : this.#bagColumn(one, parsed, ids++);
    });
  }

  faultOf(row: number): LineFault | undefined {
    if (this.#isParsed(row)) return undefined;
    const fields = this.#fieldsOf(row);
    return isFault(fields) ? fields : undefined;
  }

  #column(field: number): FieldColumn {
    return {
      form: "fields",
      textOf: (row) => this.#textOf(row, field),
      byteOf: (row) => this.#byteOf(row, field),
      isJson: this.#layout.json !== undefined,
    };
  }

  #denseColumn({ field }: DenseField, { numbers, lines }: FieldValues, place: number): FieldColumn {
    return {
      ...this.#column(field),
      numbers: numbers.subarray(place * lines, (place + 1) * lines),
    };
  }

  #bagColumn(
    one: CategoricalField,
    { lines, values }: { readonly lines: ByteLines; readonly values: FieldValues },
    place: number,
  ): FieldColumn {
    const own = this.#column(one.field);
    if (one.isWide || one.weightSeparator !== undefined) return own;
    if (one.separator === undefined) {
      const rows = values.ids.subarray(place * values.lines, (place + 1) * values.lines);
      return { ...own, entries: { offsets: values.offsets, rows } };
    }
    let found: FieldColumn["entries"];
    return {
      ...own,
      get entries() {
        found ??= listEntries(values, lines, one);
        return found;
      },
    };
  }

  #isParsed(row: number): boolean {
    return this.#begins !== undefined && this.#begins[row * (this.#layout.fields + 1)] !== -1;
  }

  #textOf(row: number, field: number): string {
    if (this.#begins === undefined || !this.#isParsed(row)) {
      const fields = this.#fieldsOf(row);
      return isFault(fields) ? "" : (fields[field] ?? "");
    }
    const first = row * (this.#layout.fields + 1);
    const start = this.#begins[first] ?? 0;
    this.#texts[row] ??= this.#lines.text(row);
    const [begin, next] = [this.#begins[first + field] ?? 0, this.#begins[first + field + 1] ?? 0];
    return (this.#texts[row] ?? "").slice(begin - start, next - 1 - start);
  }

  #byteOf(row: number, field: number): number {
    const at = row * (this.#layout.fields + 1) + field;
    const begin = this.#begins?.[at] ?? 0;
    const isOneByte = this.#isParsed(row) && (this.#begins?.[at + 1] ?? 0) === begin + 2;
    return isOneByte ? (this.#bytes[begin] ?? 256) : 256;
  }

  #fieldsOf(row: number): readonly string[] | LineFault {
    this.#fields[row] ??= this.#lines.isTooLong(row)
      ? tooLong
      : fieldsOf(this.#lines.text(row), this.#layout);
    return this.#fields[row] ?? tooLong;
  }
}

function isFault(fields: readonly string[] | LineFault): fields is LineFault {
  return !Array.isArray(fields);
}
