// The text that a value of a column would have in a text file.

import { dateOf } from "../text/split-keys.ts";
import type { Column, FieldColumn } from "./column.ts";
import { textOfId } from "./hashed-ids.ts";

/** The text of a row's value, one byte per character; `""` if it is missing. */
export function textAt(column: Column | FieldColumn, row: number): string {
  if (column.form === "fields") return column.textOf(row);
  if (column.form === "numbers") {
    const value = column.values[row] ?? Number.NaN;
    if (Number.isNaN(value)) return "";
    return column.isTime === true ? timeText(value) : String(value);
  }
  const at = column.offsets[row] ?? 0;
  if (at === column.offsets[row + 1]) return "";
  if (column.form === "texts") return column.dictionary[column.codes[at] ?? 0] ?? "";
  return textOfId(column, at);
}

/** The texts of a row's list or single value; empty if it is missing. */
export function textsAt(column: Column | FieldColumn, row: number): string[] {
  if (column.form === "numbers" || column.form === "fields") {
    const text = textAt(column, row);
    return text === "" ? [] : [text];
  }
  const [first, end] = [column.offsets[row] ?? 0, column.offsets[row + 1] ?? 0];
  return Array.from({ length: end - first }, (_, i) =>
    column.form === "ids"
      ? textOfId(column, first + i)
      : (column.dictionary[column.codes[first + i] ?? 0] ?? ""),
  );
}

/**
 * Converts seconds to milliseconds, rounded to the microsecond: a time in seconds is rarely exact
 * in binary.
 */
export function millisecondsOf(seconds: number): number {
  return Math.round(seconds * 1e6) / 1e3;
}

/** A time as an ISO date, or as seconds if it is beyond the range of dates. */
export function timeText(seconds: number): string {
  const milliseconds = millisecondsOf(seconds);
  return Math.abs(milliseconds) <= 8.64e15 ? dateOf(milliseconds) : String(seconds);
}
