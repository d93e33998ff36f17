// Writes predictions as CSV or JSON Lines, compressed batch by batch if the file's name ends in
// `.gz` or `.zst`.

import type { DiskFile, Pack } from "../../../internal.ts";
import { csvField } from "../../formats/index.ts";
import { type ProbabilityWriter, shownNumber, type WrittenColumns } from "./predict-report.ts";

/** Returns a function that compresses text and appends it to a file. */
export function textOut(target: DiskFile, pack: Pack): (text: string | Buffer) => void {
  let at = 0;
  return (text) => {
    const bytes = pack(Buffer.from(text as string));
    target.write(bytes, at);
    at += bytes.length;
  };
}

/** Writes rows as CSV, after a header. */
export function csvWriter(
  target: DiskFile,
  { kept, names }: WrittenColumns,
  pack: Pack,
): ProbabilityWriter {
  const write = textOut(target, pack);
  write(`${["row", ...kept, ...names].map(csvField).join(",")}\n`);
  return {
    write(rows, keptValues, values) {
      const lines = rows.map((row, i) => {
        const own = keptValues.map((column) => csvField(column[i] ?? ""));
        const numbers = values.map((column) => shownNumber(column[i]));
        return `${[row, ...own, ...numbers].join(",")}\n`;
      });
      write(lines.join(""));
    },
    finish() {},
  };
}

/** Writes rows as JSON objects, one per line. */
export function jsonWriter(
  target: DiskFile,
  { kept, names }: WrittenColumns,
  pack: Pack,
): ProbabilityWriter {
  const write = textOut(target, pack);
  return {
    write(rows, keptValues, values) {
      const lines = rows.map((row, i) => {
        const own = kept.map((name, c) => [name, JSON.stringify(keptValues[c]?.[i] ?? null)]);
        const numbers = names.map((name, c) => [name, shownNumber(values[c]?.[i]) || "null"]);
        const members = [["row", String(row)], ...own, ...numbers];
        return `{${members.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(",")}}\n`;
      });
      write(lines.join(""));
    },
    finish() {},
  };
}
