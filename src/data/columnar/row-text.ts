// The text that a row of a column would be in a file of text.

import { dateOf } from "../text/split-keys.ts";
import type { Column } from "./column.ts";
import { textOfId } from "./hashed-ids.ts";

/** The field that text would have, one byte per character; `""`: there is no value. */
export function textAt(column: Column, row: number): string {
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

/** The texts of a row's list, or of its one field; none where there is no value. */
export function textsAt(column: Column, row: number): string[] {
  if (column.form === "numbers") {
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

/** Milliseconds of a time in seconds, to the microsecond: seconds alone are no exact multiple. */
export function millisecondsOf(seconds: number): number {
  return Math.round(seconds * 1e6) / 1e3;
}

/** A time as a date. Times of which there is no date are shown as seconds. */
export function timeText(seconds: number): string {
  const milliseconds = millisecondsOf(seconds);
  return Math.abs(milliseconds) <= 8.64e15 ? dateOf(milliseconds) : String(seconds);
}
