// Sort keys of rows: the session, then the time, encoded so that comparing bytes orders integers
// and floats by value, and text by its bytes.

import type { SchemaElement } from "hyparquet";
import { InputUnusableError, InvalidOptionError, momentOf } from "../../../internal.ts";
import { typeOf } from "../warehouse/column-types.ts";
import type { TableColumn, TableRows } from "../warehouse/table-columns.ts";

export interface SortColumns {
  readonly session: TableColumn;
  readonly time: TableColumn;
}

/** Bytes of an encoded time or number. */
export const timeBytes = 8;

/**
 * Finds the sort columns by name.
 * @throws InvalidOptionError where a column is missing or has no order
 */
export function sortColumnsOf(
  columns: readonly TableColumn[],
  { by, order, file }: { readonly by: string; readonly order: string; readonly file: string },
): SortColumns {
  const session = columnOf(columns, "--by", by, file);
  const time = columnOf(columns, "--order", order, file);
  if (session === time) {
    const message = `Expected \`--order\` to name another column than \`--by\`, got ${order}`;
    throw new InvalidOptionError("--order", message);
  }
  refuseMany(session, "--by");
  refuseMany(time, "--order");
  const [element] = time.elements;
  if (element !== undefined && !isTime(element)) {
    const what = "integers, numbers, timestamps or ISO dates";
    const message = `Expected \`--order\` to name a column of ${what}, and \`${order}\` is ${typeNamed(time)}`;
    throw new InvalidOptionError("--order", message);
  }
  return { session, time };
}

function columnOf(
  columns: readonly TableColumn[],
  option: string,
  name: string,
  file: string,
): TableColumn {
  const found = columns.find((column) => column.name === name);
  if (found !== undefined) return found;
  const names = columns.slice(0, 20).map((column) => `\`${column.name}\``);
  const more = columns.length > 20 ? ` and ${columns.length - 20} more` : "";
  const message = `Expected \`${option}\` to name a column of ${file}, and it has no \`${name}\``;
  throw new InvalidOptionError(option, `${message}; it has ${names.join(", ")}${more}`);
}

function refuseMany(column: TableColumn, option: string): void {
  if (column.elements.length === 1) return;
  const is = `\`${column.name}\` is ${typeNamed(column)}`;
  const message = `Expected \`${option}\` to name a column with one value a row, and ${is}`;
  throw new InvalidOptionError(option, message);
}

/** `list<INT64>` */
function typeNamed({ elements }: TableColumn): string {
  return typeOf(treeOf([...elements]));
}

type Tree = Parameters<typeof typeOf>[0];

/** Builds the tree of schema nodes, which are in depth-first order and leave the list. */
function treeOf(elements: SchemaElement[]): Tree {
  const element = elements.shift() ?? { name: "" };
  const children = Array.from({ length: element.num_children ?? 0 }, () => treeOf(elements));
  const count = 1 + children.reduce((sum, child) => sum + child.count, 0);
  // `typeOf` uses only elements and children, so the other fields are not set.
  return { element, children, count, path: [element.name] } as unknown as Tree;
}

/** Whether the stored values of a column can be ordered as times. */
function isTime({
  type,
  converted_type: converted,
  logical_type: logical,
}: SchemaElement): boolean {
  if (converted === "DECIMAL" || logical?.type === "DECIMAL") return false;
  if (type === "BYTE_ARRAY") return converted === "UTF8" || logical?.type === "STRING";
  return type === "INT32" || type === "INT64" || type === "FLOAT" || type === "DOUBLE";
}

/** Makes the keys of rows. */
export class SortKeys {
  readonly #session: string;
  readonly #time: string;
  readonly #isUnsigned: boolean;
  #memory = Buffer.alloc(64);
  readonly #number = Buffer.alloc(8);

  constructor({ session, time }: SortColumns) {
    this.#session = session.name;
    this.#time = time.name;
    this.#isUnsigned = time.elements[0]?.converted_type?.startsWith("UINT_") === true;
  }

  /**
   * The key of a row, valid until the next call.
   * @throws InputUnusableError where the session or the time is missing or not valid
   */
  keyOf(rows: TableRows, row: number): Buffer {
    const session = rows.columns.get(this.#session)?.[row];
    const time = rows.columns.get(this.#time)?.[row];
    if (session === null || session === undefined) throw missing(rows, row, this.#session);
    if (time === null || time === undefined) throw missing(rows, row, this.#time);
    const end = this.#writeSession(session);
    this.#writeNumber(end, this.#momentOf(rows, row, time));
    return this.#memory.subarray(0, end + timeBytes);
  }

  #momentOf(rows: TableRows, row: number, value: unknown): number | bigint {
    // The least unsigned integer becomes the least signed one.
    if (typeof value === "bigint") return this.#isUnsigned ? value ^ -(2n ** 63n) : value;
    const isNumber = typeof value === "number" && !Number.isNaN(value);
    if (isNumber) return this.#isUnsigned ? value >>> 0 : value;
    const text = value instanceof Uint8Array ? Buffer.from(value).toString("utf8") : String(value);
    const moment = momentOf(text);
    if (moment !== undefined) return moment.value;
    const message = `Expected \`${this.#time}\` to be a number or an ISO date, got ${text}`;
    throw refused(rows, row, message);
  }

  /** Encodes the session. Returns the end of its bytes. */
  #writeSession(value: unknown): number {
    if (!(value instanceof Uint8Array)) {
      this.#writeNumber(0, typeof value === "boolean" ? Number(value) : (value as number | bigint));
      return 8;
    }
    // A zero byte is escaped as 0 255, and 0 0 ends the text, so no key is a prefix of another.
    this.#need(2 * value.length + 2 + timeBytes);
    let at = 0;
    for (const byte of value) {
      this.#memory[at++] = byte;
      if (byte === 0) this.#memory[at++] = 255;
    }
    this.#memory[at++] = 0;
    this.#memory[at++] = 0;
    return at;
  }

  /**
   * Encodes a number in 8 bytes that compare like the number: the sign bit is flipped, and all bits
   * of negative floats.
   */
  #writeNumber(at: number, value: number | bigint): void {
    this.#need(at + 8);
    if (typeof value === "bigint") this.#number.writeBigInt64BE(BigInt.asIntN(64, value));
    else this.#number.writeDoubleBE(value === 0 ? 0 : value); // -0 becomes 0.
    const isNegative = (this.#number[0] ?? 0) >= 128;
    const turned = typeof value === "number" && isNegative;
    for (let i = 0; i < 8; i++) {
      const byte = this.#number[i] ?? 0;
      this.#memory[at + i] = turned ? ~byte : i === 0 ? byte ^ 128 : byte;
    }
  }

  #need(bytes: number): void {
    if (bytes <= this.#memory.length) return;
    const larger = Buffer.alloc(2 * bytes);
    this.#memory.copy(larger);
    this.#memory = larger;
  }
}

function missing(rows: TableRows, row: number, column: string): InputUnusableError {
  return refused(rows, row, `Expected a value of \`${column}\`, got none`);
}

function refused(rows: TableRows, row: number, message: string): InputUnusableError {
  const place = rows.placeOf(row);
  return new InputUnusableError(place, `${message} in ${place}`);
}
